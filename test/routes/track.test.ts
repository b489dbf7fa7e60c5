import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import type { LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { isTimestamp } from '../../src/contract/limits.js'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { BufferPool } from '../../src/lib/buffer-pool.js'
import { codePoint } from '../fuzz/texts.js'
import { type Client, PUBLIC_KEY, randomName, SECRET_KEY, settingsFor, startApp } from '../helper.js'
import { newProject, sharedApp } from '../shared-app.js'

const BODY_LIMIT = 64 * 1024
const BATCH_BODY_LIMIT = 512 * 1024
const DONE = '{"status":1,"error":null}'

/** An exported event, with the exact text of its properties. */
interface Row {
  eventId: string
  event: string
  distinct_id: string
  timestamp: number
  properties: string
}

/** The events of a user, in the order of the export. */
async function storedOf({ call }: Client, user: string): Promise<Row[]> {
  const response = await call('GET', `/public/events?limit=10000&distinct_id=${encodeURIComponent(user)}`)
  if (response.statusCode !== 200) throw new Error(response.body)
  if (response.json().pending !== 0) throw new Error('the store has not caught up')
  const texts = elementTexts(memberText(response.body, 'events') ?? '[]')
  return texts.map((text) => ({ ...JSON.parse(text), properties: memberText(text, 'properties') }))
}

function isRefused(
  t: Test,
  response: LightMyRequestResponse,
  status: number,
  code: string,
  paths?: (string | RegExp)[],
): void {
  const body = response.json()
  const what = `${status} ${code}: ${response.body.slice(0, 120)}`
  t.match(body, { status: 0, code, error: /\w.*\.$/ }, what)
  t.equal(response.statusCode, status, what)
  t.equal(response.headers['x-event-id'], undefined)
  if (paths) {
    t.match(
      body.details?.map(({ path }: { path: string }) => path),
      paths,
      'names the fault',
    )
    t.equal(body.details?.length, paths.length)
    for (const { message } of body.details ?? []) t.match(message, /\w/)
  } else {
    t.notOk(body.details)
  }
}

const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`

/** Property texts that parsing would change. */
const EXACT = [
  '{}',
  '{ }',
  '{\n\t"a" :\r\n 1 \t}',
  '{"b":1,"a":2,"10":3,"2":4}',
  '{"n":1.0}',
  '{"n":[1e400,-1E-400,-0,-0.0,0.10,1E+5,1e05]}',
  '{"id":123456789012345678901234567890,"f":0.1000000000000000055511151231257827}',
  String.raw`{"e":"\u0000\ud800\/\u00e9\u00E9\u0041\b\f\n\r\t\"\\"}`,
  String.raw`{"\u0061\ud800":"\udc00\ud83d\ude00"}`,
  '{"a":null,"b":[null,{"c":null}]}',
  '{"__proto__":{"x":1},"constructor":{"prototype":null}}',
  '{"a":1,"a":2,"a":{"a":3,"a":3}}',
  nested(64),
  `{"list":${'['.repeat(63)}${']'.repeat(63)}}`,
  '{"t":"}],\\"events\\":[{","u":"{\\"properties\\":{}}"}',
  '{"":"","event":"x","distinct_id":"y","timestamp":-1,"properties":{"properties":[]}}',
  '{"😀":"\u2028\u2029\u007f\u0080\ufeff\uffff"}',
  '{"q":"it\'s `x` \\\\N {ids:Array(UUID)} -- ; \\\\t \\\\\\\\"}',
  `{"long":"${'x'.repeat(40_000)}"}`,
]

const space = fc.constantFrom('', '', '', ' ', '\n', '\t', '\r\n  ')
const stringText = fc.oneof(
  fc.string({ unit: codePoint }).map((text) => JSON.stringify(text)),
  fc
    .array(
      fc.constantFrom('\\u0000', '\\ud800', '\\/', '\\"', '\\\\', '\\u0065', 'a', '{', ']', ',', ':', '😀', '\u2028'),
    )
    .map((parts) => `"${parts.join('')}"`),
)
const numberText = fc.oneof(
  fc.constantFrom('1.0', '1e400', '-0', '-0.0E+5', '0e0', '123456789012345678901234567890'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => JSON.stringify(number)),
)
const { objectText } = fc.letrec<{ valueText: string; objectText: string; arrayText: string }>((tie) => ({
  valueText: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom('null', 'true', 'false'),
    numberText,
    stringText,
    fc.json(),
    tie('objectText'),
    tie('arrayText'),
  ),
  objectText: fc
    .array(fc.tuple(space, stringText, space, space, tie('valueText'), space), { maxLength: 5 })
    .chain((members) =>
      space.map((inner) => `{${inner}${members.map(([a, name, b, c, v, d]) => `${a}${name}${b}:${c}${v}${d}`)}}`),
    ),
  arrayText: fc
    .array(fc.tuple(space, tie('valueText'), space), { maxLength: 4 })
    .map((items) => `[${items.map((item) => item.join(''))}]`),
}))

/** All bytes of the embedded journal on the disk. */
async function journalOf({ DATA_DIR = '' }: NodeJS.ProcessEnv): Promise<Buffer> {
  const folder = join(DATA_DIR, 'journal')
  const files = (await readdir(folder)).filter((name) => name === 'data.mdb' || name.startsWith('entries-'))
  return Buffer.concat(await Promise.all(files.map((name) => readFile(join(folder, name)))))
}

t.test('bodies', async (t) => {
  const env: NodeJS.ProcessEnv = {
    ...(await settingsFor(t, 'embedded')),
    FACTS: 'off',
    BODY_LIMIT: String(BODY_LIMIT),
    BATCH_BODY_LIMIT: String(BATCH_BODY_LIMIT),
  }
  const client = await startApp(t, env)
  const { call, app } = client
  const track = (body: unknown, headers?: object) => call('POST', '/public/track', body, headers)
  const trackBatch = (body: unknown, headers?: object) => call('POST', '/public/track/batch', body, headers)
  /** without the header x-api-key */
  const keyless = (url: string, payload: string | object, headers: Record<string, string> = {}) =>
    app.inject({ method: 'POST', url, payload, headers: { 'content-type': 'application/json', ...headers } })
  const stored = (user: string) => storedOf(client, user)
  const user = () => randomName('user')

  t.test('track responds with exactly this, and a header has the id of the event', async (t) => {
    const distinct_id = user()
    const before = Date.now()
    const response = await track({ event: 'signup', distinct_id, properties: { plan: 'pro' } })
    const after = Date.now()
    t.equal(response.statusCode, 200)
    t.equal(response.body, DONE)
    t.equal(response.headers['content-type'], 'application/json; charset=utf-8')
    const [row, ...rest] = await stored(distinct_id)
    t.strictSame(rest, [])
    t.strictSame(row, {
      eventId: response.headers['x-event-id'],
      event: 'signup',
      distinct_id,
      properties: '{"plan":"pro"}',
      timestamp: row?.timestamp,
    })
    t.ok(row && row.timestamp >= before && row.timestamp <= after, 'server time')
  })

  t.test('concurrent calls get different ids', async (t) => {
    const distinct_id = user()
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) => track({ event: `e${n}`, distinct_id, timestamp: n })),
    )
    const byId = new Map((await stored(distinct_id)).map(({ eventId, event }) => [eventId, event]))
    t.equal(byId.size, 100)
    t.strictSame(
      answers.map(({ headers }) => byId.get(String(headers['x-event-id']))),
      answers.map((_, n) => `e${n}`),
    )
  })

  t.test('a batch returns the count and keeps its order', async (t) => {
    const distinct_id = user()
    const events = [3, 1, 2].map((n) => ({ event: `e${n}`, distinct_id, timestamp: n, properties: { n } }))
    const response = await trackBatch({ events })
    t.equal(response.statusCode, 200)
    t.equal(response.body, '{"status":1,"error":null,"accepted":3}')
    t.strictSame(
      (await stored(distinct_id)).map(({ event, timestamp, properties }) => ({ event, timestamp, properties })),
      events.map(({ event, timestamp, properties }) => ({
        event,
        timestamp,
        properties: JSON.stringify(properties),
      })),
    )
  })

  t.test('null counts as absent for optional fields', async (t) => {
    const distinct_id = user()
    const event = { event: 'e', distinct_id, properties: null, timestamp: null }
    const before = Date.now()
    t.equal((await track({ apiKey: null, ...event })).statusCode, 200)
    t.equal((await trackBatch({ apiKey: null, events: [event] })).statusCode, 200)
    t.equal((await track({ event: 'e', distinct_id })).statusCode, 200)
    const rows = await stored(distinct_id)
    t.strictSame(
      rows.map(({ properties }) => properties),
      ['{}', '{}', '{}'],
    )
    for (const { timestamp } of rows) t.ok(timestamp >= before && timestamp <= Date.now())
  })

  const goodNames = [
    ' ',
    'x'.repeat(255),
    '😀'.repeat(255),
    '"\\/\b\f\n\r\t\'`',
    'a\u0000b\u001f\u007f\u0080\u2028\ufeff\uffff',
    '\\N',
    'NULL',
    '__proto__',
  ]
  const badNames = [undefined, null, '', 'x'.repeat(256), '😀'.repeat(256), 1, true, [], ['a'], {}]
  /** `JSON.stringify` with every character of a string as an escape */
  const escaped = (text: string) =>
    `"${Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`

  t.test('event has 1 to 255 characters, in any spelling', async (t) => {
    const distinct_id = user()
    for (const name of goodNames) {
      t.equal((await track({ event: name, distinct_id })).statusCode, 200)
      t.equal((await track(`{"event":${escaped(name)},"distinct_id":"${distinct_id}"}`)).statusCode, 200)
    }
    t.equal((await trackBatch({ events: goodNames.map((event) => ({ event, distinct_id })) })).statusCode, 200)
    for (const event of badNames) {
      isRefused(t, await track({ event, distinct_id }), 400, 'invalid_request', ['/event'])
      isRefused(t, await trackBatch({ events: [{ event, distinct_id }] }), 400, 'invalid_request', ['/events/0/event'])
    }
    t.strictSame(
      (await stored(distinct_id)).map(({ event }) => event),
      [...goodNames.flatMap((name) => [name, name]), ...goodNames],
    )
  })

  t.test('distinct_id has 1 to 255 characters', async (t) => {
    for (const distinct_id of goodNames) {
      t.equal((await track({ event: 'single', distinct_id })).statusCode, 200)
      t.equal((await trackBatch({ events: [{ event: 'batch', distinct_id }] })).statusCode, 200)
    }
    for (const distinct_id of goodNames) {
      const found = (await stored(distinct_id)).map((row) => [row.event, row.distinct_id])
      const wanted = [
        ['single', distinct_id],
        ['batch', distinct_id],
      ]
      t.strictSame(found, wanted, escaped(distinct_id.slice(0, 10)))
    }
    for (const distinct_id of badNames) {
      isRefused(t, await track({ event: 'e', distinct_id }), 400, 'invalid_request', ['/distinct_id'])
      const events = [{ event: 'e', distinct_id }]
      isRefused(t, await trackBatch({ events }), 400, 'invalid_request', ['/events/0/distinct_id'])
    }
  })

  t.test('timestamp is a number from 0 to 9999999999999, and is returned unchanged', async (t) => {
    const distinct_id = user()
    const texts = [
      '0',
      '1',
      '9999999999999',
      '631151999',
      '631151999.9',
      '4102444800.1',
      '4102444801',
      '1588628831000.25',
      '1588628831000.1234567',
      '1.588628831e12',
      '15886288310000E-1',
      '0.1',
      '1e-7',
      '5e-324',
      '1e-400',
      '9999999999998.999',
    ]
    const body = (timestamp: string) => `{"event":"e","distinct_id":"${distinct_id}","timestamp":${timestamp}}`
    for (const text of texts) t.equal((await track(body(text))).statusCode, 200, text)
    t.equal((await trackBatch(`{"events":[${texts.map(body)}]}`)).statusCode, 200)
    for (const text of [
      '10000000000000',
      '9999999999999.5',
      '-1',
      '-0.001',
      '1e400',
      '631152000',
      '1588628831',
      '1588628831.25',
      '1.588628831e9',
      '4102444800',
      '"1588628831000"',
      '""',
      'true',
    ]) {
      isRefused(t, await track(body(text)), 400, 'invalid_request', ['/timestamp'])
      isRefused(t, await trackBatch(`{"events":[${body(text)}]}`), 400, 'invalid_request', ['/events/0/timestamp'])
    }
    t.strictSame(
      (await stored(distinct_id)).map(({ timestamp }) => timestamp),
      [...texts, ...texts].map(Number),
    )
  })

  t.test('any allowed timestamp is returned as the same number', async () => {
    const times = fc
      .double({ min: 0, max: 9_999_999_999_999, noNaN: true })
      .filter((time) => isTimestamp(time))
      .map((time) => time + 0)
    await fc.assert(
      fc.asyncProperty(fc.array(times, { minLength: 1, maxLength: 100 }), async (timestamps) => {
        const distinct_id = user()
        await trackBatch({ events: timestamps.map((timestamp) => ({ event: 'e', distinct_id, timestamp })) })
        const found = (await stored(distinct_id)).map(({ timestamp }) => timestamp)
        return JSON.stringify(found) === JSON.stringify(timestamps)
      }),
      { numRuns: 4 },
    )
  })

  t.test('properties must be an object', async (t) => {
    const distinct_id = user()
    for (const properties of [[], [{}], 'a', '{}', '', 0, 1, true, false]) {
      isRefused(t, await track({ event: 'e', distinct_id, properties }), 400, 'invalid_request', ['/properties'])
      const events = [{ event: 'e', distinct_id, properties }]
      isRefused(t, await trackBatch({ events }), 400, 'invalid_request', ['/events/0/properties'])
    }
    t.strictSame(await stored(distinct_id), [])
  })

  t.test('the body must be an object', async (t) => {
    for (const body of ['[]', '"a"', '1', 'null', 'true', '[{"event":"e","distinct_id":"u"}]']) {
      isRefused(t, await track(body), 400, 'invalid_request', [''])
      isRefused(t, await trackBatch(body), 400, 'invalid_request', [''])
    }
    isRefused(t, await track({}), 400, 'invalid_request', [/^\/(event|distinct_id)$/, /^\/(event|distinct_id)$/])
    isRefused(t, await trackBatch({}), 400, 'invalid_request', ['/events'])
  })

  t.test('unknown fields are ignored, whatever they hold', async (t) => {
    const distinct_id = user()
    const fields = [
      '"EVENT":"wrong","Properties":{"wrong":1}',
      '"project_id":"other","event_id":"wrong","received_at":1,"events":[{"event":"wrong","distinct_id":"wrong"}]',
      '"body":{"events":[]},"body.events":[],"properties.a":1,"id_low":1',
      '"x":1e400,"y":-0,"z":123456789012345678901234567890,"w":[1,"a",null,{"b":[]}]',
      String.raw`"\ud800":"\ud800","\u0000":"\u0000\/","":"","😀":"😀"`,
      '"x":1,"x":2,"__proto__":{"event":"wrong"}',
      `"deep":${nested(2000)}`,
      `"deep":${'['.repeat(2000)}${']'.repeat(2000)}`,
    ]
    for (const [n, extra] of fields.entries()) {
      const event = `${extra},"event":"e${n}","distinct_id":"${distinct_id}","properties":{"n":${n}.0},${extra}`
      t.equal((await track(`{${event}}`)).statusCode, 200, extra.slice(0, 40))
      const around = extra.replace('"events"', '"Events"')
      const batch = `{${around},"events":[{${event}}],${around}}`
      t.equal((await trackBatch(batch)).statusCode, 200, extra.slice(0, 40))
    }
    t.strictSame(
      (await stored(distinct_id)).map(({ event, properties }) => [event, properties]),
      fields.flatMap((_, n) => [
        [`e${n}`, `{"n":${n}.0}`],
        [`e${n}`, `{"n":${n}.0}`],
      ]),
    )
  })

  t.test('the key may be in the body or in the header', async (t) => {
    for (const [url, body] of [
      ['/public/track', { event: 'e', distinct_id: 'keys' }],
      ['/public/track/batch', { events: [{ event: 'e', distinct_id: 'keys' }] }],
    ] as const) {
      const header = (key: string) => ({ 'x-api-key': key })
      const sent = async (apiKey: unknown, headers = {}) =>
        await keyless(url, JSON.stringify({ ...(apiKey !== undefined && { apiKey }), ...body }), headers)
      t.equal((await sent(SECRET_KEY)).statusCode, 200, 'body')
      t.equal((await sent(undefined, header(SECRET_KEY))).statusCode, 200, 'header')
      t.equal((await sent(SECRET_KEY, header(SECRET_KEY))).statusCode, 200, 'both, the same')
      t.equal((await sent(null, header(SECRET_KEY))).statusCode, 200, 'header, and null in the body')
      isRefused(t, await sent(SECRET_KEY, header(PUBLIC_KEY)), 401, 'unauthorized')
      isRefused(t, await sent(PUBLIC_KEY, header(SECRET_KEY)), 401, 'unauthorized')
      isRefused(t, await sent(undefined), 401, 'unauthorized')
      isRefused(t, await sent(PUBLIC_KEY), 403, 'wrong_key_kind')
    }
    t.equal((await stored('keys')).length, 8)
  })

  t.test('a batch has 1 to 1000 events', async (t) => {
    const distinct_id = user()
    const events = (count: number) => Array.from({ length: count }, (_, n) => ({ event: `e${n}`, distinct_id }))
    t.equal((await trackBatch({ events: events(1) })).json().accepted, 1)
    t.equal((await trackBatch({ events: events(1000) })).json().accepted, 1000)
    isRefused(t, await trackBatch({ events: events(1001) }), 400, 'too_many_events')
    isRefused(t, await trackBatch({ events: [...events(1000), 1] }), 400, 'too_many_events')
    isRefused(t, await trackBatch({ events: [] }), 400, 'invalid_request', ['/events'])
    for (const other of [null, undefined, {}, 'a', 1]) {
      isRefused(t, await trackBatch({ events: other }), 400, 'invalid_request', ['/events'])
    }
    t.strictSame(
      (await stored(distinct_id)).map(({ event }) => event),
      ['e0', ...events(1000).map(({ event }) => event)],
    )
  })

  t.test('one invalid event means that nothing is stored, and every invalid one is named', async (t) => {
    const distinct_id = user()
    const good = { event: 'e', distinct_id }
    const events = [good, { distinct_id }, good, null, { ...good, properties: [] }, good, [], 'a', { event: '' }, good]
    const response = await trackBatch({ events })
    isRefused(t, response, 400, 'invalid_request', [
      '/events/1/event',
      /^\/events\/3(\/|$)/,
      '/events/4/properties',
      /^\/events\/6(\/|$)/,
      /^\/events\/7(\/|$)/,
      /^\/events\/8\//,
    ])
    const last = await trackBatch({
      events: [...Array.from({ length: 999 }, () => good), { ...good, timestamp: -1 }],
    })
    isRefused(t, last, 400, 'invalid_request', ['/events/999/timestamp'])
    const many = await trackBatch({ events: Array.from({ length: 500 }, (_, n) => (n % 2 ? { distinct_id } : good)) })
    isRefused(
      t,
      many,
      400,
      'invalid_request',
      Array.from({ length: 100 }, (_, n) => `/events/${2 * n + 1}/event`),
    )
    t.strictSame(await stored(distinct_id), [])
  })

  t.test('the key is not stored on disk', async (t) => {
    const distinct_id = user()
    const rest = `"event":"kept-event","distinct_id":"${distinct_id}"`
    const key = `"apiKey":"${SECRET_KEY}"`
    for (const body of [
      `{${key},${rest}}`,
      `{${rest},${key}}`,
      `{"apiKey":${escaped(SECRET_KEY)},${rest}}`,
      `{"\\u0061piKey":"${SECRET_KEY}",${rest}}`,
      `{${key},${rest},${key}}`,
    ]) {
      t.equal((await track(body)).statusCode, 200, body)
    }
    t.equal((await trackBatch(`{${key},"events":[{${rest}}]}`)).statusCode, 200)
    t.equal((await trackBatch(`{${key},"events":[{${key},${rest}}],${key}}`)).statusCode, 200)
    t.equal((await stored(distinct_id)).length, 7)
    const journal = await journalOf(env)
    t.ok(journal.includes('kept-event'), 'this is where it would be')
    t.notOk(journal.includes(SECRET_KEY))
  })

  t.test('a key that a later null overrides is not stored on disk either', async (t) => {
    const distinct_id = user()
    const body = `{"apiKey":"${SECRET_KEY}","event":"taken-back","distinct_id":"${distinct_id}","apiKey":null}`
    t.equal((await track(body)).statusCode, 200)
    t.equal((await stored(distinct_id)).length, 1)
    const journal = await journalOf(env)
    t.ok(journal.includes('taken-back'), 'this is where it would be')
    t.notOk(journal.includes(SECRET_KEY))
  })

  t.test('no exported event and no response contains the key', async (t) => {
    const distinct_id = user()
    const key = `"apiKey":"${SECRET_KEY}"`
    const rest = `"event":"e","distinct_id":"${distinct_id}","properties":{"a":1.0}`
    const answers = await Promise.all([
      track(`{${key},${rest}}`),
      track(`{${rest},"note":"${SECRET_KEY}",${key}}`),
      track(`{"apiKey":${escaped(SECRET_KEY)},${rest}}`),
      trackBatch(`{"events":[{${rest},${key}}],${key}}`),
      track(`{${key},"event":{"${SECRET_KEY}":1},"${SECRET_KEY}":1}`),
      track(`{${key},"event":"${SECRET_KEY}"`),
      track(`{${key},`),
      trackBatch(`{${key},"events":[{"event":1,"${SECRET_KEY}":1}]}`),
      keyless('/public/sessions/start', `{${key},"distinct_id":"d","session_id":"s"}`),
      keyless(`/public/${SECRET_KEY}`, `{${key}}`),
      call('GET', `/public/events?limit=${SECRET_KEY}`),
      call('GET', `/public/events?cursor=${SECRET_KEY}`),
      call('DELETE', `/public/events/${SECRET_KEY}`),
    ])
    t.strictSame(
      answers.map(({ statusCode }) => statusCode),
      [200, 200, 200, 200, 400, 400, 400, 400, 403, 404, 400, 400, 404],
    )
    for (const { body, headers } of answers) t.notOk(`${body}${JSON.stringify(headers)}`.includes(SECRET_KEY), body)
    t.strictSame(
      (await stored(distinct_id)).map(({ properties }) => properties),
      ['{"a":1.0}', '{"a":1.0}', '{"a":1.0}', '{"a":1.0}'],
    )
    const all = await call('GET', '/public/events?limit=10000')
    t.equal(all.json().hasMore, false)
    t.notOk(all.body.includes(SECRET_KEY))
  })

  t.test('bodies that are slow to read are stored exactly and delay nobody', async (t) => {
    const distinct_id = user()
    const id = `"distinct_id":"${distinct_id}"`
    const key = `"apiKey":"${SECRET_KEY}"`
    const hard: [body: string, event: string, properties: string, timestamp?: number][] = [
      [`{"\\u0065vent":"n1",${id},"properties":{"n":1.0}}`, 'n1', '{"n":1.0}'],
      [`{"event":"n2",${id},"propert\\u0069es":{"n" : 1.0}}`, 'n2', '{"n" : 1.0}'],
      [`{"event":"n3","distinct\\u005Fid":"${distinct_id}","t\\u0069mestamp":5}`, 'n3', '{}', 5],
      [`{"event":"wrong",${id},"event":"n4","properties":{"n":4.0}}`, 'n4', '{"n":4.0}'],
      [`{"event":"n5","distinct_id":"wrong",${id},"properties":{"n":5e0}}`, 'n5', '{"n":5e0}'],
      [`{"properties":{"wrong":1},"event":"n6",${id},"properties":{ "n":6.0}}`, 'n6', '{ "n":6.0}'],
      [`{"properties":{"wrong":1},"event":"n7",${id},"properties":null}`, 'n7', '{}'],
      [`{"properties":null,"event":"n8",${id},"properties":{"n":8.0}}`, 'n8', '{"n":8.0}'],
      [`{"properties":[1],"event":"n9",${id},"properties":{"n":9.0}}`, 'n9', '{"n":9.0}'],
      [`{"timestamp":1,"event":"n10",${id},"timestamp":2}`, 'n10', '{}', 2],
      [`{"timestamp":"x","event":"n11",${id},"timestamp":3}`, 'n11', '{}', 3],
      [`{"event":"wrong",${id},"\\u0065vent":"n12","properties":{"n":1}}`, 'n12', '{"n":1}'],
      [`{"event":"n13",${id},"x":${nested(2000)},"properties":{"n":1.50}}`, 'n13', '{"n":1.50}'],
      [`{"event":"n14",${id},"properties":{"n":1.50},"x":${'['.repeat(2000)}${']'.repeat(2000)}}`, 'n14', '{"n":1.50}'],
      [`{"event":"n15",${key},${id},"properties":{"k":"${SECRET_KEY}"}}`, 'n15', `{"k":"${SECRET_KEY}"}`],
      [`{"properties":{"k":"a ${SECRET_KEY} b"},${key},"event":"n16",${id}}`, 'n16', `{"k":"a ${SECRET_KEY} b"}`],
      [`{"properties":{"apiKey":"${SECRET_KEY}"},"event":"n17",${id}}`, 'n17', `{"apiKey":"${SECRET_KEY}"}`],
      [`{"event":"n18",${id},"properties":{"n":1.0}\n,${key}\n}`, 'n18', '{"n":1.0}'],
      [` \r\n\t{"event":"n19",${id},"properties"\n:\n{"n":\n1.0}}\n `, 'n19', '{"n":\n1.0}'],
      [`{"event":"${SECRET_KEY}",${key},${id},"properties":{"n":20.0}}`, SECRET_KEY, '{"n":20.0}'],
      [`{"event":"n21",${id},"properties":{"\\u0065vent":"\\u0041"},${key}}`, 'n21', '{"\\u0065vent":"\\u0041"}'],
      [`{"event":"\\u006e22",${id},"properties":${nested(64)}}`, 'n22', nested(64)],
      [`{"event":"n23",${id},"properties":${nested(64)}}`, 'n23', nested(64)],
      [`{"x":{"x":1,"x":2},"event":"n24",${id},"properties":{"n":24.0},"\\ud800":1}`, 'n24', '{"n":24.0}'],
    ]
    const plain = (n: number) => track(`{"event":"plain","distinct_id":"${distinct_id}","properties":{"n":${n}.0}}`)
    const answers = await Promise.all(
      hard.flatMap(([body], n) => [plain(n), track(body), trackBatch(`{"events":[${body}]}`)]),
    )
    for (const [n, { statusCode, body }] of answers.entries()) t.equal(statusCode, 200, `${n}: ${body}`)
    const rows = await stored(distinct_id)
    t.equal(rows.length, answers.length)
    t.strictSame(
      rows.flatMap(({ event, properties }) => (event === 'plain' ? [properties] : [])).sort(),
      hard.map((_, n) => `{"n":${n}.0}`).sort(),
    )
    for (const [n, [, event, properties, timestamp]] of hard.entries()) {
      const id = answers[3 * n + 1]?.headers['x-event-id']
      const row = rows.find(({ eventId }) => eventId === id)
      t.equal(row?.properties, properties, event)
      t.equal(row?.event, event)
      if (timestamp !== undefined) t.equal(row?.timestamp, timestamp)
      t.strictSame(
        rows.filter((row) => row.event === event).map((row) => row.properties),
        [properties, properties],
      )
    }
  })

  t.test('a batch that is slow to read', async (t) => {
    const distinct_id = user()
    const event = (n: number) => `{"event":"e${n}","distinct_id":"${distinct_id}","properties":{"n":${n}.0}}`
    const bodies = [
      `{"\\u0065vents":[${event(1)}, ${event(2)} ]}`,
      `{"events":[${event(0)}],"events":[\n${event(3)}\n,${event(4)}]}`,
      `{"events":null,"events":[${event(5)}],"x":${nested(2000)}}`,
      `{"events":[${event(6)},{"event":"wrong",${event(7).slice(1)},${event(8)}]}`,
      `{"apiKey":"wrong","events":[${event(9)}],"apiKey":"${SECRET_KEY}"}`,
    ]
    const counts: number[] = []
    for (const body of bodies) counts.push((await trackBatch(body)).json().accepted)
    t.strictSame(counts, [2, 2, 1, 3, 1])
    t.strictSame(
      (await stored(distinct_id)).map(({ event, properties }) => [event, properties]),
      [1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [`e${n}`, `{"n":${n}.0}`]),
    )
  })

  t.test('bodies that are not UTF-8 or JSON are refused', async (t) => {
    const distinct_id = user()
    const good = `{"event":"e","distinct_id":"${distinct_id}"}`
    const bad = [
      Buffer.concat([Buffer.from(good.slice(0, -1)), Buffer.from(',"x":"'), Buffer.from([0xff]), Buffer.from('"}')]),
      Buffer.concat([Buffer.from(good.slice(0, -2)), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
      Buffer.concat([Buffer.from(good.slice(0, -2)), Buffer.from([0xc3]), Buffer.from('"}')]),
      Buffer.concat([Buffer.from(good.slice(0, -2)), Buffer.from([0xc0, 0x80]), Buffer.from('"}')]),
      Buffer.from(good, 'utf16le'),
      '',
      '{',
      `${good}${good}`,
      good.replace('"e"', "'e'"),
      good.replace('"e"', '"\n"'),
      good.replace('"e"', '"\\x"'),
      good.replace('}', ',}'),
      good.replace('}', ',"x":01}'),
      good.replace('}', ',"x":NaN}'),
      good.replace('}', '}//'),
    ]
    for (const body of bad) {
      isRefused(t, await track(body), 400, 'invalid_json')
      isRefused(t, await trackBatch(body), 400, 'invalid_json')
    }
    t.strictSame(await stored(distinct_id), [])
  })

  t.test('a body of exactly the limit is accepted, one byte more is not', async (t) => {
    const distinct_id = user()
    const event = `{"event":"e","distinct_id":"${distinct_id}"}`
    const fill = (text: string, length: number) => text.padEnd(length, ' ')
    t.equal((await track(fill(event, BODY_LIMIT))).statusCode, 200)
    isRefused(t, await track(fill(event, BODY_LIMIT + 1)), 413, 'payload_too_large')
    t.equal((await trackBatch(fill(`{"events":[${event}]}`, BATCH_BODY_LIMIT))).statusCode, 200)
    isRefused(t, await trackBatch(fill(`{"events":[${event}]}`, BATCH_BODY_LIMIT + 1)), 413, 'payload_too_large')
    t.equal((await stored(distinct_id)).length, 2)
  })

  t.test('a body of another type is refused', async (t) => {
    const distinct_id = user()
    const events = { '/public/track': { event: 'e', distinct_id }, '/public/track/batch': { events: [] as object[] } }
    events['/public/track/batch'].events = [events['/public/track']]
    const good = [
      'application/json',
      'application/json; charset=utf-8',
      'application/json;charset=UTF-8',
      'APPLICATION/JSON',
    ]
    const bad = [
      'text/plain',
      'text/plain; charset=utf-8',
      'text/html',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'application/json-patch+json',
      'application/octet-stream',
      'json',
      'nonsense/',
      '',
    ]
    for (const [url, body] of Object.entries(events)) {
      for (const type of good) t.equal((await call('POST', url, body, { 'content-type': type })).statusCode, 200, type)
      for (const type of bad) {
        const response = await call('POST', url, body, { 'content-type': type })
        t.comment(type)
        isRefused(t, response, 415, 'unsupported_media_type')
      }
      const typeless = await app.inject({
        method: 'POST',
        url,
        payload: Buffer.from(JSON.stringify(body)),
        headers: { 'x-api-key': SECRET_KEY },
      })
      isRefused(t, typeless, 415, 'unsupported_media_type')
    }
    t.equal((await stored(distinct_id)).length, 2 * good.length)
  })

  t.test('a call without a body is refused', async (t) => {
    for (const url of ['/public/track', '/public/track/batch']) {
      const response = await app.inject({ method: 'POST', url, headers: { 'x-api-key': SECRET_KEY } })
      t.match(response.json(), { status: 0, code: /^invalid_(json|request)$/ })
      t.equal(response.statusCode, 400)
    }
  })

  t.test('properties are stored byte for byte', async (t) => {
    const distinct_id = user()
    const bodies = EXACT.map((text) => `{"event":"e","distinct_id":"${distinct_id}","properties":${text}}`)
    for (const body of bodies) t.equal((await track(body)).statusCode, 200)
    t.equal((await trackBatch(`{"events":[${bodies}]}`)).statusCode, 200)
    const rows = await stored(distinct_id)
    t.equal(rows.length, 2 * EXACT.length)
    for (const [n, { properties }] of rows.entries()) {
      const wanted = EXACT[n % EXACT.length] ?? ''
      t.ok(properties === wanted, `the text ${n % EXACT.length}`)
    }
  })

  t.test('any properties are returned unchanged and in their order', async () => {
    const wrap = fc.constantFrom(
      (id: string, text: string) => `{"event":"e","distinct_id":"${id}","properties":${text}}`,
      (id: string, text: string) => `{ "properties" : ${text} ,\n"distinct_id":"${id}","x":[],"event":"e"}`,
      (id: string, text: string) => `{"\\u0065vent":"e","properties":${text},"distinct_id":"${id}"}`,
      (id: string, text: string) => `{"event":"e","properties":{},"properties":${text},"distinct_id":"${id}"}`,
    )
    const batches = fc.array(fc.tuple(wrap, objectText), { minLength: 1, maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(batches, fc.boolean(), async (batch, inOne) => {
        const distinct_id = user()
        const bodies = batch.map(([body, text]) => body(distinct_id, text))
        const calls = inOne ? [() => trackBatch(`{"events":[${bodies}]}`)] : bodies.map((body) => () => track(body))
        for (const send of calls) {
          const { statusCode, body } = await send()
          if (statusCode !== 200) throw new Error(body)
        }
        const found = (await stored(distinct_id)).map(({ properties }) => properties)
        const wanted = batch.map(([, text]) => text)
        if (JSON.stringify(found) !== JSON.stringify(wanted)) {
          throw new Error(`${JSON.stringify(found)} should be ${JSON.stringify(wanted)}`)
        }
      }),
      { numRuns: 6 },
    )
  })
})

t.test('Idempotency-Key', async (t) => {
  const client = await newProject(await sharedApp('lanes'))
  const { call, keys } = client
  const track = (body: unknown, headers?: object) => call('POST', '/public/track', body, headers)
  const trackBatch = (body: unknown, headers?: object) => call('POST', '/public/track/batch', body, headers)
  const stored = (user: string) => storedOf(client, user)
  const user = () => randomName('user')

  t.test('a repeated call gets the first response and stores nothing', async (t) => {
    const distinct_id = user()
    const key = { 'idempotency-key': randomName('retry') }
    const body = { event: 'e', distinct_id, properties: { n: 1 } }
    const first = await track(body, key)
    await stored(distinct_id)
    const second = await track(body, key)
    t.equal(second.statusCode, 200)
    t.equal(second.body, first.body)
    t.match(first.headers['x-event-id'], /^[\da-f-]{36}$/)
    t.equal(second.headers['x-event-id'], first.headers['x-event-id'])
    t.equal((await call('POST', '/public/track?again=1', body, key)).headers['x-event-id'], first.headers['x-event-id'])
    isRefused(t, await track({ ...body, properties: { n: 2 } }, key), 409, 'idempotency_conflict')
    isRefused(t, await trackBatch({ events: [body] }, key), 409, 'idempotency_conflict')
    t.strictSame(
      (await stored(distinct_id)).map(({ eventId }) => eventId),
      [first.headers['x-event-id']],
    )
  })

  t.test('batches', async (t) => {
    const distinct_id = user()
    const key = { 'idempotency-key': randomName('retry') }
    const events = [1, 2, 3].map((n) => ({ event: `e${n}`, distinct_id }))
    const first = await trackBatch({ events }, key)
    const second = await trackBatch({ events }, key)
    t.equal(first.body, '{"status":1,"error":null,"accepted":3}')
    t.equal(second.statusCode, 200)
    t.equal(second.body, first.body)
    isRefused(t, await trackBatch({ events: events.slice(1) }, key), 409, 'idempotency_conflict')
    isRefused(t, await track(events[0], key), 409, 'idempotency_conflict')
    t.strictSame(
      (await stored(distinct_id)).map(({ event }) => event),
      ['e1', 'e2', 'e3'],
    )
  })

  t.test('identical concurrent calls store once', async (t) => {
    const distinct_id = user()
    const event = { event: 'e', distinct_id }
    const [one, two] = [randomName('retry'), randomName('retry')]
    const [singles, batches] = await Promise.all([
      Promise.all(Array.from({ length: 10 }, () => track(event, { 'idempotency-key': one }))),
      Promise.all(Array.from({ length: 10 }, () => trackBatch({ events: [event] }, { 'idempotency-key': two }))),
    ])
    t.strictSame([...new Set([...singles, ...batches].map(({ statusCode }) => statusCode))], [200])
    const ids = new Set(singles.map(({ headers }) => headers['x-event-id']))
    t.equal(ids.size, 1)
    const rows = await stored(distinct_id)
    t.equal(rows.length, 2)
    t.ok(rows.some(({ eventId }) => ids.has(eventId)))
  })

  t.test('only one of several concurrent bodies is stored', async (t) => {
    const distinct_id = user()
    const key = { 'idempotency-key': randomName('retry') }
    const answers = await Promise.all([1, 2, 3].map((n) => track({ event: `e${n}`, distinct_id }, key)))
    t.strictSame(answers.map(({ statusCode }) => statusCode).sort(), [200, 409, 409])
    const winner = answers.find(({ statusCode }) => statusCode === 200)
    t.strictSame(
      (await stored(distinct_id)).map(({ eventId }) => eventId),
      [winner?.headers['x-event-id']],
    )
  })

  t.test('a refused call is not remembered', async (t) => {
    const distinct_id = user()
    const key = { 'idempotency-key': randomName('retry') }
    isRefused(t, await track({ distinct_id }, key), 400, 'invalid_request', ['/event'])
    isRefused(t, await trackBatch({ events: [] }, key), 400, 'invalid_request', ['/events'])
    t.equal((await track({ event: 'e', distinct_id }, key)).statusCode, 200)
    t.equal((await stored(distinct_id)).length, 1)
  })

  t.test('1 to 255 characters', async (t) => {
    const distinct_id = user()
    const event = { event: 'e', distinct_id }
    for (const key of ['!', 'k'.repeat(255)]) {
      const answers = [
        await track(event, { 'idempotency-key': key }),
        await track(event, { 'idempotency-key': key }),
        await track(event, { 'idempotency-key': `${key.slice(0, -1)}?` }),
      ]
      t.strictSame(
        answers.map(({ statusCode }) => statusCode),
        [200, 200, 200],
      )
      t.equal(new Set(answers.map(({ headers }) => headers['x-event-id'])).size, 2)
    }
    for (const key of ['', 'k'.repeat(256)]) {
      for (const response of [
        await track(event, { 'idempotency-key': key }),
        await trackBatch({ events: [event] }, { 'idempotency-key': key }),
      ]) {
        t.match(response.json(), { status: 0, code: 'invalid_request' })
        t.equal(response.statusCode, 400)
      }
    }
    t.equal((await stored(distinct_id)).length, 4)
  })

  t.test('a parsed body counts once as well', async (t) => {
    const distinct_id = user()
    const key = { 'idempotency-key': randomName('retry') }
    const body = `{"apiKey":"${keys.secret}","\\u0065vent":"e","event":"e","distinct_id":"${distinct_id}","x":${nested(2000)}}`
    const answers = [await track(body, key), await track(body, key)]
    t.equal(answers[1]?.headers['x-event-id'], answers[0]?.headers['x-event-id'])
    t.strictSame(
      (await stored(distinct_id)).map(({ eventId }) => eventId),
      [answers[0]?.headers['x-event-id']],
    )
  })
})

t.test('the buffers of rewritten bodies are reused', async (t) => {
  const slabs = new Set<ArrayBufferLike>()
  const { concat } = BufferPool.prototype
  BufferPool.prototype.concat = function (chunks, length) {
    const body = concat.call(this, chunks, length)
    slabs.add(body.buffer)
    return body
  }
  t.teardown(() => {
    BufferPool.prototype.concat = concat
  })
  const client = await newProject()
  // The scan finds one, and does not accept the other.
  const unusual = ['"x":"\\\\n","event":"e"', '"\\u0065vent":"e"']
  const wanted: string[] = []
  for (let n = 0; n < 200; n++) {
    const properties = `{"text":"${'x'.repeat(60_000)}${n}"}`
    const event = `{${unusual[n % 2]},"distinct_id":"u","properties":${properties}}`
    wanted.push(properties)
    const [path, body] = n % 4 < 2 ? ['/public/track', event] : ['/public/track/batch', `{"events":[${event}]}`]
    t.equal((await client.call('POST', path, body)).statusCode, 200)
    // The response comes once everything is stored, which releases the buffers.
    if (n % 20 === 19) t.equal((await client.call('GET', '/public/events?limit=1')).statusCode, 200)
  }
  t.ok(slabs.size <= 3, `12 MB of bodies needed ${slabs.size} slabs of the pool`)
  const stored = (await storedOf(client, 'u')).map(({ properties }) => properties)
  t.ok(stored.join() === wanted.join(), 'each is stored as it was sent')
})
