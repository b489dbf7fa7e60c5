import { Writable } from 'node:stream'
import fc from 'fast-check'
import pino from 'pino'
import t from 'tap'
import type { Warning } from '../../src/contract/warning.js'
import { IgnoredFields } from '../../src/http/ignored-fields.js'
import { randomName, SECRET_KEY, settingsFor, startApp } from '../helper.js'

const NDJSON = { 'content-type': 'application/x-ndjson' }

t.test('warnings about ignored fields', async (t) => {
  const lines: string[] = []
  const write = (chunk: Buffer, _: unknown, done: () => void) => {
    lines.push(
      ...String(chunk)
        .split('\n')
        .filter((line) => line.includes('fields that are ignored')),
    )
    done()
  }
  const log = pino({ level: 'warn' }, new Writable({ write }))
  const { app, call } = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }, { log })
  const answer = async (path: string, body: unknown, headers = {}) => {
    const response = await call('POST', `/public${path}`, body, headers)
    if (response.statusCode !== 200) throw new Error(response.body)
    return response.json()
  }
  const event = (more: object = {}) => ({ event: 'e', distinct_id: 'ada', ...more })
  const meant = (path: string, name: string) => {
    return { path, message: `The field ${path.split('/').at(-1)} is ignored. Did you mean ${name}?` }
  }

  await t.test('a request without unknown fields gets the same response as before, byte for byte', async (t) => {
    const done = '{"status":1,"error":null}'
    const bodyOf = async (path: string, body: unknown, headers = {}) =>
      (await call('POST', `/public${path}`, body, headers)).body
    t.equal(await bodyOf('/users/identify', { distinct_id: 'ada', properties: { traits: 1 } }), done)
    t.equal(await bodyOf('/users/identify', { apiKey: SECRET_KEY, distinct_id: 'ada', properties: null }), done)
    t.equal(await bodyOf('/users/profile', { distinct_id: 'ada', operations: { $set: { userId: 1 } } }), done)
    const accepted = '{"status":1,"error":null,"accepted":1}'
    const full = event({ properties: { name: 'x' }, timestamp: 1, insert_id: randomName('id') })
    t.equal(await bodyOf('/track/batch', { apiKey: SECRET_KEY, events: [full] }), accepted)
    t.equal(await bodyOf('/import', JSON.stringify(full), NDJSON), accepted)
    t.equal(await bodyOf('/track/batch', { events: [event({ other: null })] }), accepted, 'null is absent')
  })

  await t.test('an exported event can be sent unchanged', async (t) => {
    const exported = event({ eventId: '0193ae30-7c42-7000-8000-00005eed1234', properties: {}, timestamp: 1 })
    t.notOk('warnings' in (await answer('/import', JSON.stringify(exported), NDJSON)))
    t.notOk('warnings' in (await answer('/track/batch', { events: [exported] })))
  })

  await t.test('track returns no warnings; the log names the fields, and the metrics count the events', async (t) => {
    const track = async (body: unknown) => {
      t.equal((await call('POST', '/public/track', body)).body, '{"status":1,"error":null}')
    }
    const count = async () => {
      const [, number] = /^tallyhouse_events_with_ignored_fields_total.*\} (\d+)$/m.exec(
        (await app.inject('/metrics')).body,
      ) ?? ['', '0']
      return Number(number)
    }
    await track(event({ properties: { traits: 1 } }))
    await track(event({ apiKey: SECRET_KEY, eventId: '0193ae30-7c42-7000-8000-00005eed1234', other: null }))
    t.equal(await count(), 0)
    t.strictSame(lines, [])
    await track(event({ userId: 'ada', traits: {}, events: [1], [SECRET_KEY]: 1 }))
    // The scanner does not support a timestamp with a fraction.
    await track(event({ timestamp: 1.5, name: 'x' }))
    t.equal(await count(), 2)
    t.equal(lines.length, 1, 'at most once a minute')
    t.match(JSON.parse(lines[0] ?? ''), {
      project: 'default',
      events: 1,
      fields: [
        'The field userId is ignored. Did you mean distinct_id?',
        'The field traits is ignored. Did you mean properties?',
        'The field events is ignored. Did you mean event?',
      ],
    })
    t.notMatch(lines.join(''), SECRET_KEY)
  })

  await t.test('identify and profile name each ignored field, and the one that was probably meant', async (t) => {
    const { warnings } = await answer('/users/identify', {
      distinct_id: 'ada',
      traits: { plan: 'pro' },
      userId: 'ada',
      distinctId: 'ada',
      propertes: {},
      api_key: 'x',
      plan: 'pro',
    })
    t.strictSame(warnings, [
      meant('/traits', 'properties'),
      meant('/userId', 'distinct_id'),
      meant('/distinctId', 'distinct_id'),
      meant('/propertes', 'properties'),
      meant('/api_key', 'apiKey'),
      { path: '/plan', message: 'The field plan is ignored. Put your own data into properties.' },
    ])
    const profile = { distinct_id: 'ada', operations: { $set: { a: 1 } }, $add: { n: 1 }, properties: {}, mode: 'x' }
    t.strictSame((await answer('/users/profile', profile)).warnings, [
      meant('/$add', 'operations'),
      meant('/properties', 'operations'),
      { path: '/mode', message: 'The field mode is ignored. Put changes into operations.' },
    ])
  })

  await t.test('a batch names the events of ignored fields', async (t) => {
    const events = [
      event(),
      event({ name: 'x', type: 'track', time: 1, ts: 2 }),
      event(),
      event({ props: {}, attributes: {}, userId: 'u', user_id: 'u', insertId: 'i', messageId: 'm', sessionId: 's' }),
    ]
    const expected = [
      meant('/events/1/name', 'event'),
      meant('/events/1/type', 'event'),
      meant('/events/1/time', 'timestamp'),
      meant('/events/1/ts', 'timestamp'),
      meant('/events/3/props', 'properties'),
      meant('/events/3/attributes', 'properties'),
      meant('/events/3/userId', 'distinct_id'),
      meant('/events/3/user_id', 'distinct_id'),
      meant('/events/3/insertId', 'insert_id'),
      meant('/events/3/messageId', 'insert_id'),
      meant('/events/3/sessionId', 'session_id'),
    ]
    const answered = await answer('/track/batch', { events })
    t.strictSame(answered, { status: 1, error: null, accepted: 4, warnings: expected })
    // The scanner does not support a timestamp with a fraction.
    const odd = events.map((one) => ({ ...one, timestamp: 1.5 }))
    t.strictSame((await answer('/track/batch', { events: odd })).warnings, expected)
    const lines = events.map((one) => JSON.stringify({ ...one, properties: {} })).join('\n\n')
    t.strictSame((await answer('/import', lines, NDJSON)).warnings, expected)
  })

  await t.test('a batch names ignored fields of its body', async (t) => {
    const batch = { api_key: 'x', events: [event()], sentAt: 1 }
    const { warnings } = await answer('/track/batch', batch)
    t.strictSame(warnings, [
      meant('/api_key', 'apiKey'),
      {
        path: '/sentAt',
        message: 'The field sentAt is ignored. A batch only has events. Put fields into each event.',
      },
    ])
  })

  await t.test('at most 20 warnings, and the same for a repeated request', async (t) => {
    const events = Array.from({ length: 1000 }, () => event({ props: {}, extra: 1 }))
    const headers = { 'idempotency-key': randomName('key') }
    const first = await answer('/track/batch', { events }, headers)
    t.equal(first.accepted, 1000)
    t.equal(first.warnings.length, 20)
    t.match(first.warnings.at(-1), { path: '/events/9/extra' })
    t.strictSame(await answer('/track/batch', { events }, headers), first)
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`f${i}`, i]))
    t.equal((await answer('/users/identify', { distinct_id: 'ada', ...many })).warnings.length, 20)
  })

  await t.test('a name is escaped in the pointer, may be long, and is never the key', async (t) => {
    const { warnings } = await answer('/users/identify', { distinct_id: 'ada', 'a/b~c': 1, ['x'.repeat(1000)]: 1 })
    t.match(warnings[0], { path: '/a~1b~0c', message: /^The field a\/b~c is ignored/ })
    t.equal(warnings[1].path, `/${'x'.repeat(255)}…`)
    for (const name of [SECRET_KEY, `x ${SECRET_KEY}`]) {
      for (const [path, body] of [
        ['/users/identify', { distinct_id: 'ada' }],
        ['/track/batch', { events: [event({ [name]: 1 })] }],
      ] as const) {
        const response = await call('POST', `/public${path}`, { ...body, [name]: 1 })
        t.equal(response.statusCode, 200)
        t.notMatch(response.body, SECRET_KEY)
      }
    }
  })

  await t.test('a scanned body and a parsed one get the same warnings', async (t) => {
    const name = fc.oneof(
      fc.constantFrom('event', 'events', 'props', 'name', 'properties', 'apiKey', 'eventId', 'insert_id', 'x'),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 }).filter((text) => text !== '__proto__'),
    )
    const value = fc.json({ maxDepth: 2 }).map((text) => JSON.parse(text) as unknown)
    const others = fc.dictionary(name, value, { maxKeys: 4 })
    const batch = fc.record({ events: fc.array(others, { minLength: 1, maxLength: 4 }), more: others })
    await fc.assert(
      fc.asyncProperty(batch, async ({ events, more }) => {
        const good = (one: object) => event({ ...one, ...event(), properties: { a: [{}, '}'] }, insert_id: null })
        const bodyOf = (timestamp: number) => {
          return { ...more, apiKey: SECRET_KEY, events: events.map((one) => ({ ...good(one), timestamp })) }
        }
        const [scanned, parsed] = [await answer('/track/batch', bodyOf(1)), await answer('/track/batch', bodyOf(1.5))]
        // The parser lists numeric names first.
        t.strictSame(inOrder(scanned), inOrder(parsed))
      }),
      { numRuns: 20 },
    )
  })
})

function inOrder(answer: { warnings?: Warning[] }): object {
  return { ...answer, warnings: answer.warnings?.toSorted((a, b) => (a.path < b.path ? -1 : 1)) }
}

t.test('IgnoredFields logs once a minute for each project, and uses bounded memory', (t) => {
  let now = 0
  const ignored = new IgnoredFields(() => now)
  const logged: { project: string; events: number }[] = []
  const note = (projectId: string) => {
    const log = { warn: (line: (typeof logged)[number]) => logged.push(line) }
    const body = { event: 'e', distinct_id: 'ada', traits: {} }
    ignored.note({ body, projectId, server: { log }, key: undefined } as never)
  }
  for (let i = 0; i < 3; i++) note('a')
  note('b')
  now += 60_000
  note('a')
  const short = logged.map(({ project, events }) => [project, events])
  t.strictSame(short, [
    ['a', 1],
    ['b', 1],
    ['a', 3],
  ])
  for (let i = 0; i < 5000; i++) note(`p${i}`)
  t.equal(ignored.counts.length, 1001)
  t.equal(
    ignored.counts.reduce((sum, [, events]) => sum + events, 0),
    5005,
  )
  t.end()
})
