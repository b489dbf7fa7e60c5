import pino from 'pino'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { type Client, LANES, PUBLIC_KEY, settingsFor, startApp, until } from '../helper.js'
import { shardsUrl, startNodes } from '../nodes.js'

const START = Date.parse('2026-04-20T00:00:00Z')

type Sent = [event: string, user: string, properties?: string]

function names({ call }: Client) {
  const get = async (path: string) => {
    const response = await call('GET', `/public/schema/${path}`)
    if (response.statusCode !== 200) throw new Error(response.body)
    return JSON.parse(response.body)
  }
  return {
    async send(...events: Sent[]) {
      const texts = events.map(
        ([event, user, properties = '{}'], i) =>
          `{"event":${JSON.stringify(event)},"distinct_id":${JSON.stringify(user)},"timestamp":${START + i},"properties":${properties}}`,
      )
      const response = await call('POST', '/public/track/batch', `{"events":[${texts}]}`)
      if (response.statusCode !== 200) throw new Error(response.body)
    },
    /** `[event, count]` each */
    counts: async () =>
      (await get('events')).events.map(({ event, count }: { event: string; count: number }) => [event, count]),
    events: () => get('events'),
    properties: (event?: string) =>
      get(`properties${event === undefined ? '' : `?event=${encodeURIComponent(event)}`}`),
    values: async (query: Record<string, string>) => {
      const { values } = await get(`values?${new URLSearchParams(query)}`)
      return values.map(({ value, count }: { value: unknown; count: number }) => [value, count])
    },
    get,
  }
}

for (const storage of LANES) {
  t.test(storage, async (t) => {
    const client = await startApp(t, { ...(await settingsFor(t, storage)), FACTS: 'on' })
    const { call } = client
    const { send, counts, events, properties, values, get } = names(client)

    await t.test('a project without events has no names', async (t) => {
      t.strictSame(await events(), { status: 1, error: null, events: [], pending: 0 })
      const { fields, ...none } = await properties()
      t.strictSame(none, { status: 1, error: null, properties: [], sampled: 0, pending: 0 })
      for (const name of ['page.channel', 'context.country', 'session.bounced']) t.ok(fields.includes(name))
      t.strictSame(await values({ field: 'event' }), [])
    })

    await t.test('events are counted by name, including new ones and excluding deleted ones', async (t) => {
      await send(['b', 'ada'], ['a', 'ada'], ['b', 'bob'])
      t.strictSame(await events(), {
        status: 1,
        error: null,
        events: [
          { event: 'b', count: 2, first_seen: START, last_seen: START + 2 },
          { event: 'a', count: 1, first_seen: START + 1, last_seen: START + 1 },
        ],
        pending: 0,
      })
      for (let i = 0; i < 5; i++) {
        await send(['a', 'ada'], ['c', 'ada'])
        t.strictSame((await counts())[0], i < 1 ? ['a', 2] : ['a', 2 + i])
      }
      t.strictSame(await counts(), [
        ['a', 6],
        ['c', 5],
        ['b', 2],
      ])
      const [first] = await client.events()
      t.equal((await call('DELETE', `/public/events/${first?.eventId}`)).statusCode, 200)
      t.strictSame(await counts(), [
        ['a', 6],
        ['c', 5],
        ['b', 1],
      ])
      await send(['c', 'eve'], ['c', 'eve'])
      t.strictSame(
        await Promise.all([counts(), counts(), counts()]),
        Array(3).fill([
          ['c', 7],
          ['a', 6],
          ['b', 1],
        ]),
      )
    })

    await t.test('properties are listed with their types', async (t) => {
      await send(
        ['p', 'ada', '{"plan":"pro","n":1,"o":{"a":1},"n":"second"}'],
        ['p', 'bob', '{"plan":"pro","n":"1","list":[1,2],"off":null}'],
        ['p', 'eve', '{"plan":"free","n":1.0,"is":true}'],
        ['p', 'zoe', '{"n":1e400,"\\ud83d x":"\\ud83d","big":123456789012345678901234567890}'],
      )
      const { properties: found, sampled } = await properties('p')
      t.equal(sampled, 4)
      t.strictSame(found.slice(0, 2), [
        {
          property: 'n',
          share: 1,
          types: [
            { type: 'number', share: 0.75 },
            { type: 'string', share: 0.25 },
          ],
          examples: [1, Number.POSITIVE_INFINITY, '1'],
        },
        { property: 'plan', share: 0.75, types: [{ type: 'string', share: 1 }], examples: ['pro', 'free'] },
      ])
      const rest = found.slice(2).map(({ property, types, examples }: Record<string, [{ type: string }]>) => {
        return [property, types?.[0].type, examples?.[0]]
      })
      t.strictSame(rest, [
        ['big', 'number', 1.2345678901234568e29],
        ['is', 'boolean', true],
        ['list', 'array', [1, 2]],
        ['o', 'object', { a: 1 }],
        ['\ud83d x', 'string', '\ud83d'],
      ])
      t.strictSame((await properties('none')).properties, [])
    })

    await t.test('values of a field are listed, and follow edits', async (t) => {
      await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { 'first.name': 'Ada' } })
      await send(
        ['v', 'ada', '{"a":{"b":1},"x.y":"Deep"}'],
        ['v', 'ada', '{"a":{"b":1.0},"x.y":"deeper"}'],
        ['v', 'bob', '{"a":{"b":"1"}}'],
        ['v', 'bob', `{"a":{"b":null},"x.y":"${'long '.repeat(50)}"}`],
      )
      t.strictSame(await values({ field: 'properties.a.b', event: 'v' }), [
        [1, 2],
        ['1', 1],
      ])
      t.strictSame(await values({ field: 'distinct_id', event: 'v' }), [
        ['ada', 2],
        ['bob', 2],
      ])
      t.strictSame(await values({ field: 'event', search: 'V' }), [['v', 4]])
      t.strictSame(await values({ field: 'event', limit: '1' }), [['c', 7]])
      t.strictSame(await values({ field: '["properties","x.y"]', event: 'v', search: 'dEEp' }), [
        ['Deep', 1],
        ['deeper', 1],
      ])
      t.strictSame(await values({ field: '["user","first.name"]', event: 'v' }), [['Ada', 2]])
      await call('POST', '/public/users/alias', { distinct_id: 'ada', alias: 'countess' })
      await send(['v', 'countess', '{}'])
      t.strictSame(await values({ field: '["user","first.name"]', event: 'v' }), [['Ada', 3]])
      t.equal((await get('values?field=properties.a.b&event=v')).sampled, 5)
      const event = (await client.events(10, '&event=v&order=desc')).at(-1)
      await call('PUT', `/public/events/${event?.eventId}`, { properties: { a: { b: 'edited' } } })
      t.strictSame(await values({ field: 'properties.a.b', event: 'v' }), [
        ['1', 1],
        ['edited', 1],
        [1, 1],
      ])
    })

    await t.test('unknown parameters are refused', async (t) => {
      const refused = async (url: string) => {
        const { statusCode, body } = await call('GET', `/public/schema/${url}`)
        return [statusCode, JSON.parse(body).details?.[0].path]
      }
      t.strictSame(await refused('events?event=a'), [400, '/event'])
      t.strictSame(await refused('properties?limit=1'), [400, '/limit'])
      t.strictSame(await refused('properties?event='), [400, '/event'])
      t.strictSame(await refused('values'), [400, '/field'])
      for (const field of ['plan', 'properties', '["properties"', '["user"]', 'insert_id', '']) {
        t.strictSame(await refused(`values?field=${encodeURIComponent(field)}`), [400, '/field'], field)
      }
      t.equal((await call('GET', '/public/schema/events', undefined, { 'x-api-key': PUBLIC_KEY })).statusCode, 403)
      t.strictSame(await refused('values?field=event&limit=1001'), [400, '/limit'])
      t.strictSame(await refused(`values?field=event&search=${'x'.repeat(256)}`), [400, '/search'])
    })
  })
}

t.test('the samples of a large project have the newest events of all shards', async (t) => {
  const nodes = await startNodes(t, 2)
  const client = await startApp(t, {
    ...(await settingsFor(t, 'embedded')),
    FACTS: 'on',
    LANES: '2',
    CLICKHOUSE_URL: shardsUrl(nodes),
  })
  const { get, values, send } = names(client)
  await client.call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { plan: 'pro' } })
  await client.call('POST', '/public/users/alias', { distinct_id: 'ada', alias: 'countess' })
  await send(['b', 'ada'])
  for (const [i, { url }] of nodes.entries()) {
    const clickhouse = new ClickHouse({ url })
    t.teardown(() => clickhouse.close())
    // Every other id is on the other shard, and few have the newest property.
    await clickhouse.command(
      `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
       SELECT 'default', toUUID(concat('019da82f-d400-7000-8000-', leftPad(hex(toUInt32(2 * number + ${i})), 12, '0'))), 'a',
         ['countess', 'bob'][1 + ${i}], ${START}, ${START}, if(number >= 59600, '{"new":1}', '{"old":1}') FROM numbers(60000)`,
    )
  }
  const first = await get('properties?event=a')
  t.equal(first.sampled, 1000)
  t.strictSame(
    first.properties.map(({ property, share }: { property: string; share: number }) => [property, share]),
    [
      ['new', 0.8],
      ['old', 0.2],
    ],
  )
  t.strictSame(await values({ field: 'user.plan', event: 'a' }), [['pro', 500]])
})

t.test('a service prepares the lists of large projects at its start', async (t) => {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line).msg) })
  let url = ''
  const onClickHouse = (found: string) => {
    url = found
  }
  const client = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }, { log, onClickHouse })
  const clickhouse = new ClickHouse({ url })
  t.teardown(() => clickhouse.close())
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
     SELECT 'default', toUUID(concat('019da82f-d400-7000-8000-', leftPad(hex(toUInt32(number)), 12, '0'))), 'a', 'ada',
       ${START}, ${START}, '{"n":1}' FROM numbers(150000)`,
  )
  await client.app.listen({ port: 0 })
  await until('the names to be counted', () => lines.includes('the names of events are counted'))
  await clickhouse.command('RENAME TABLE events TO events_away')
  t.strictSame(await names(client).counts(), [['a', 150_000]])
  t.strictSame(
    (await names(client).properties()).properties.map(({ property }: { property: string }) => property),
    ['n'],
  )
  await clickhouse.command('RENAME TABLE events_away TO events')
})
