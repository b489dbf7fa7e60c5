import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { formatBatchId } from '../../src/model/batch-id.js'
import { formatEventId, parseEventId } from '../../src/model/event-id.js'
import { formatPosition, type Position } from '../../src/model/position.js'
import { formatRejected } from '../../src/model/rejected.js'
import { insertDeadLetter, insertRejected } from '../../src/store/dead-letters.js'
import { openStore } from '../../src/store/open.js'
import { type Client, SECRET_KEY, startApp, startRedis, until } from '../helper.js'
import { type Node, shardsUrl, startNodes } from '../nodes.js'
import { newProject } from '../shared-app.js'
import { addSdkProject, basic } from './vendors/sdk-app.js'

const JOURNAL = 7
let clock = 1_760_000_000_000n

/** Stores a dead letter like the writer. */
async function leave(
  clickhouse: ClickHouse,
  body: string | Buffer,
  { projectId = 'default', journalId = JOURNAL } = {},
) {
  const position: Position = ++clock << 16n
  const entry = {
    position,
    kind: 'events' as const,
    projectId,
    count: 1,
    receivedAt: Number(clock),
    body: Buffer.from(body),
  }
  await insertDeadLetter(clickhouse, journalId, entry, `ClickHouse error 27: ${'y'.repeat(20_000)}`, `${position}`)
  return formatPosition(position)
}

function callsOf({ call }: Client, headers: object = {}) {
  const page = async (query = '') => (await call('GET', `/public/dead-letters?${query}`, undefined, headers)).json()
  const replay = (ids: unknown) => call('POST', '/public/dead-letters/replay', { ids }, headers)
  const idsOf = (letters: { id: string }[]) => letters.map(({ id }) => id)
  const named = async (event: string) => (await call('GET', `/public/events?event=${event}`)).json().events
  return { page, replay, idsOf, named }
}

function isRefused(
  t: Test,
  response: Awaited<ReturnType<Client['call']>>,
  status: number,
  code: string,
  path?: string,
) {
  t.match(response.json(), { status: 0, code, error: /\w.*\.$/ }, response.body)
  t.equal(response.statusCode, status)
  if (path !== undefined) t.match(response.json().details, [{ path, message: /\w/ }], response.body)
}

const eventsOf = (...events: object[]) =>
  JSON.stringify({ events: events.map((event) => ({ distinct_id: 'u', ...event })) })

t.test('one shard', async (t) => {
  const client = await newProject()
  const { call, projectId } = client
  const leaveHere = (body: string | Buffer) => leave(clickhouse, body, { projectId })
  const { page, replay, idsOf, named } = callsOf(client)
  const { clickhouse, close } = await openStore(client.config)
  t.teardown(close)

  t.test('a new project has none', async (t) => {
    const response = await call('GET', '/public/dead-letters')
    t.equal(response.body, '{"status":1,"error":null,"dead_letters":[],"page":1,"limit":50,"hasMore":false}')
  })

  t.test('lists those of the project by pages, newest first', async (t) => {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) {
      ids.unshift(await leaveHere(eventsOf({ event: `e${i}` })))
      await leave(clickhouse, eventsOf({ event: 'foreign' }), { projectId: 'other' })
    }
    t.strictSame(idsOf((await page()).dead_letters), ids)
    for (const [number, wanted, hasMore] of [
      [1, ids.slice(0, 2), true],
      [3, ids.slice(4), false],
      [4, [], false],
    ] as const) {
      const answer = await page(`limit=2&page=${number}`)
      t.strictSame(
        [idsOf(answer.dead_letters), answer.hasMore, answer.page, answer.limit],
        [wanted, hasMore, number, 2],
      )
    }
    const [first] = (await page('limit=1')).dead_letters
    t.match(first, {
      kind: 'events',
      received_at: Number(clock) - 1,
      replayed_at: null,
      entry: eventsOf({ event: 'e4' }),
    })
    t.match(first.reason, /^ClickHouse error 27: y+$/)
    t.equal(first.reason.length, 10_000)
    for (const query of ['limit=0', 'limit=101', 'page=0', 'limit=x']) {
      isRefused(t, await call('GET', `/public/dead-letters?${query}`), 400, 'invalid_request')
    }
  })

  t.test('cuts an entry between characters, and accepts entries that are not text', async (t) => {
    await leaveHere(`"${'😀'.repeat(12_000)}"`)
    t.equal((await page('limit=1')).dead_letters[0].entry, `"${'😀'.repeat(9_999)}`)
    await leaveHere(Buffer.from([0x7b, 0xff, 0x00, 0x0a]))
    t.equal((await page('limit=1')).dead_letters[0].entry, '{\ufffd\u0000\n')
  })

  t.test('stores replayed ones under their original ids, and removes them from the waiting ones', async (t) => {
    const good = await leaveHere(eventsOf({ event: 'good', properties: { x: 1 }, session_id: 's' }, { event: 'good' }))
    const bad = await leaveHere('{"events":')
    const foreign = await leave(clickhouse, eventsOf({ event: 'good' }), { projectId: 'other' })
    const unknown = '1-0'
    const response = await replay([good, bad, foreign, unknown, good])
    t.equal(response.statusCode, 200, response.body)
    const { replayed, refused } = response.json()
    t.equal(replayed, 1)
    t.strictSame(idsOf(refused).sort(), [bad, foreign, unknown].sort())
    for (const { id, reason } of refused) t.match(reason, id === bad ? /\w/ : /No dead letter with this id is waiting/)
    const position = BigInt(good.split('-')[0] ?? '') << 16n
    const ids = [0, 1].map((index) => formatEventId({ position, index, journalId: JOURNAL }))
    const stored = await named('good')
    t.strictSame(
      stored.map(({ eventId }: { eventId: string }) => eventId),
      ids,
    )
    t.strictSame(
      stored.map(({ session_id }: { session_id?: string }) => session_id),
      ['s', undefined],
    )
    const letters = (await page()).dead_letters
    const at = (id: string) => letters.find((letter: { id: string }) => letter.id === id)?.replayed_at
    t.type(at(good), 'number', 'it stays in the list')
    t.equal(at(bad), null)
    t.match((await replay([good])).json(), { replayed: 0, refused: [{ id: good, reason: /No dead letter/ }] })
    t.equal((await named('good')).length, 2)
  })

  t.test('events that were replayed and then deleted are in no dead letter', async (t) => {
    const names = ['kept', 'deleted', 'undone', 'undone too']
    const [mixed, batch] = [
      await leaveHere(eventsOf({ event: 'kept' }, { event: 'deleted' })),
      await leaveHere(eventsOf({ event: 'undone' }, { event: 'undone too' })),
    ]
    t.equal((await replay([mixed, batch])).json().replayed, 2)
    const [[deleted], [undone]] = [await named('deleted'), await named('undone')]
    t.equal((await call('DELETE', `/public/events/${deleted.eventId}`)).statusCode, 200)
    const place = parseEventId(undone.eventId)
    if (!place) throw new Error(undone.eventId)
    const response = await call('POST', '/public/events/delete', { batches: [formatBatchId(place)] })
    t.equal(response.json().events, 2, response.body)
    const { body } = await call('GET', '/public/dead-letters')
    t.strictSame(
      names.filter((name) => body.includes(`"${name}\\"`)),
      ['kept'],
    )
    t.equal((await named('kept')).length, 1)
  })

  t.test('events that are deleted while they wait do not come back', async (t) => {
    const id = await leaveHere(eventsOf({ event: 'stays' }, { event: 'goes' }))
    const batch = await leaveHere(eventsOf({ event: 'undone', insert_id: 'a' }, { event: 'undone too' }))
    const placeOf = (text: string) => ({ position: BigInt(text.split('-')[0] ?? '') << 16n, journalId: JOURNAL })
    const [stays, goes] = [0, 1].map((index) => formatEventId({ ...placeOf(id), index }))
    const edited = await call('PUT', `/public/events/${stays}`, { properties: {} })
    isRefused(t, edited, 404, 'not_found')
    t.match(edited.json().error, /is in a dead letter. Replay that first/)
    t.equal((await call('DELETE', `/public/events/${goes}`)).statusCode, 200)
    isRefused(t, await call('DELETE', `/public/events/${goes}`), 404, 'not_found')
    t.notMatch((await call('PUT', `/public/events/${goes}`, { properties: {} })).json().error, /dead letter/)

    const undo = (isDryRun: boolean) =>
      call('POST', '/public/events/delete', { batches: [formatBatchId(placeOf(batch))], dry_run: isDryRun })
    t.match((await undo(true)).json(), { events: 2, with_insert_id: 1 })
    t.match((await undo(false)).json(), { events: 2, with_insert_id: 1 })
    t.match((await undo(false)).json(), { events: 0, with_insert_id: 0 })

    const { replayed, refused } = (await replay([id, batch])).json()
    t.equal(replayed, 1)
    t.strictSame(idsOf(refused), [batch], 'nothing is left of it')
    for (const event of ['goes', 'undone', 'undone too']) t.strictSame(await named(event), [], event)
    t.match(await named('stays'), [{ eventId: stays }])
    t.equal((await call('PUT', `/public/events/${stays}`, { properties: { x: 2 } })).statusCode, 200)
  })

  t.test('an event is deleted from a dead letter although the project keeps events for a limited time', async (t) => {
    await call('PATCH', '/public/project', { keep: { events: '1y' } })
    t.teardown(() => call('PATCH', '/public/project', { keep: { events: null } }))
    const id = await leaveHere(eventsOf({ event: 'aging', timestamp: Date.now() }))
    const position = BigInt(id.split('-')[0] ?? '') << 16n
    const eventId = formatEventId({ position, index: 0, journalId: JOURNAL })
    t.equal((await call('DELETE', `/public/events/${eventId}`)).statusCode, 200)
    t.match((await replay([id])).json(), { replayed: 0, refused: [{ id }] })
    t.strictSame(await named('aging'), [])
  })

  t.test('stores each event once in concurrent replays', async (t) => {
    const ids = await Promise.all(
      Array.from({ length: 5 }, (_, i) => leaveHere(eventsOf({ event: 'once', properties: { i } }))),
    )
    const answers = await Promise.all(Array.from({ length: 6 }, () => replay(ids)))
    t.strictSame([...new Set(answers.map(({ statusCode }) => statusCode))], [200])
    t.equal((await named('once')).length, 5)
    t.strictSame((await replay(ids)).json().replayed, 0)
  })

  t.test('names invalid fields', async (t) => {
    for (const [ids, path] of [
      [undefined, '/ids'],
      [[], '/ids'],
      ['1-0', '/ids'],
      [Array.from({ length: 101 }, (_, i) => `${i}-0`), '/ids'],
      [['1-0', 1], '/ids/1'],
      [['1-0', "1-0' OR 1"], '/ids/1'],
      [['1'], '/ids/0'],
      [['01-0'], '/ids/0'],
      [['999999999999999-0'], '/ids/0'],
      [['1-65536'], '/ids/0'],
    ] as const) {
      isRefused(t, await replay(ids), 400, 'invalid_request', path)
    }
  })
})

t.test('an SDK message that is no event is listed without the key, for keys that can read', async (t) => {
  const { client, keys, otherKey, post } = await addSdkProject()
  const read = (key: string) => callsOf(client, { 'x-api-key': key })
  const sent = { $token: keys.write, $set: { nobody: 1 } }
  t.ok((await post('/mixpanel/engage', sent)).statusCode < 500)
  const [letter] = (await read(keys.read).page()).dead_letters
  t.match(letter, { kind: 'rejected', reason: /\w/, entry: /nobody/, replayed_at: null })
  t.notMatch(letter.entry, keys.write)
  t.strictSame((await read(keys.secret).page()).dead_letters, [letter])
  t.match((await read(keys.secret).replay([letter.id])).json(), {
    replayed: 0,
    refused: [{ id: letter.id, reason: /send them again/ }],
  })
  isRefused(t, await read(keys.read).replay([letter.id]), 403, 'wrong_key_kind')
  for (const key of [keys.write, keys.public, otherKey]) t.equal((await read(key).page()).code, 'wrong_key_kind')
  t.strictSame((await callsOf(client).page()).dead_letters, [], 'another project has none')
  t.equal((await client.app.inject({ url: '/public/dead-letters', headers: basic(keys.read) })).statusCode, 401)
})

t.test('lists the dead letters of all shards, and replays each on its shard', async (t) => {
  const nodes = (await startNodes(t, 2)) as [Node, Node]
  const redis = await startRedis(t)
  const env = {
    PUBLIC_API_KEY: 'pk_test_public_key',
    SECRET_KEY,
    LOG_LEVEL: 'silent',
    PORT: '0',
    LANES: '2',
    FACTS: 'off',
  }
  const client = await startApp(t, { ...env, REDIS_URL: redis.url, CLICKHOUSE_URL: shardsUrl(nodes) })
  const { page, replay, idsOf, named } = callsOf(client)
  const ids: string[] = []
  for (let i = 0; i < 6; i++) {
    const clickhouse = new ClickHouse({ url: nodes[i % 2]?.url ?? '' })
    ids.unshift(await leave(clickhouse, eventsOf({ event: 'spread', properties: { i } }), { journalId: 1 + (i % 2) }))
    await clickhouse.close()
  }
  const first = new ClickHouse({ url: nodes[0].url })
  const position = ++clock << 16n
  const body = formatRejected([{ reason: 'no event', message: '{}' }])
  const entry = { position, kind: 'rejected' as const, projectId: 'default', count: 1, receivedAt: Number(clock), body }
  await insertRejected(first, 1, [entry], 'rejected')
  await first.close()
  const all = [formatPosition(position), ...ids]
  t.strictSame(idsOf((await page()).dead_letters), all)
  t.strictSame(idsOf((await page('limit=3&page=2')).dead_letters), all.slice(3, 6))
  const answers = await Promise.all([replay(ids), replay(ids)])
  for (const answer of answers) t.equal(answer.statusCode, 200, answer.body)
  t.equal((await named('spread')).length, 6)
  t.equal(
    (await page()).dead_letters.filter((letter: { replayed_at: unknown }) => letter.replayed_at === null).length,
    1,
  )

  await nodes[1].stop()
  await until('the shard to be missed', async () => (await page()).code === 'unavailable')
  const down = await replay(ids)
  isRefused(t, down, 503, 'unavailable')
  t.match(down.json().error, /Shard 1/)
})
