import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { elementTexts, memberText } from '../../src/json/texts.js'
import { codePoint } from '../fuzz/texts.js'
import { PUBLIC_KEY, randomName, SECRET_KEY, settingsFor, startApp } from '../helper.js'

const BODY_LIMIT = 64 * 1024
const NDJSON = { 'content-type': 'application/x-ndjson' }

/** Lines: events as clients may send them, and invalid ones. */
const anySpace = fc.constantFrom('', '', '', ' ', '\t', ' \t ')
const name = fc.oneof(
  fc.constantFrom('"a"', '"\\u0061"', '"ü😀"', '"\\ud800"', '""', 'null', '7', `"${'x'.repeat(256)}"`),
  fc.string({ unit: codePoint, minLength: 1, maxLength: 20 }).map((text) => JSON.stringify(text)),
)
const goodName = fc.constantFrom('"a"', '"\\u0061"', '"ü😀"', '"b\\n"')
const properties = fc.oneof(
  fc.constantFrom('{}', '{ "n" : 1.0 }', '{"n":[1e400,-0.0,123456789012345678901234567890]}', 'null', '[]', '{"a":}'),
  fc.dictionary(fc.string(), fc.jsonValue()).map((value) => JSON.stringify(value)),
)
const goodProperties = fc.constantFrom('{}', '{ "n" : 1.0 }', '{"e":"\\u0000\\ud800\\/"}', '{"a":1,"a":2}', 'null')
const time = fc.constantFrom('0', '1.588628831e12', '9999999999999', 'null', '-1', '"1"', '1e400')
const goodTime = fc.constantFrom('0', '1.588628831e12', '9999999999999', '1588628831000.25')
const eventOf = (names: fc.Arbitrary<string>, times: fc.Arbitrary<string>, objects: fc.Arbitrary<string>) =>
  fc
    .tuple(
      anySpace,
      fc.record(
        {
          event: names,
          distinct_id: names,
          timestamp: times,
          insert_id: names,
          session_id: names,
          other: fc.json({ maxDepth: 1 }),
        },
        { requiredKeys: times === goodTime ? ['event', 'distinct_id', 'timestamp'] : ['event', 'distinct_id'] },
      ),
      objects,
    )
    .map(([space, { insert_id, session_id, ...fields }, object]) => {
      const ids = { ...(insert_id && { insert_id }), ...(session_id && { session_id }) }
      const all = Object.entries({ ...fields, ...ids, properties: object })
      return `${space}{${all.map(([field, text]) => `${space}"${field}":${space}${text}`).join(',')}}${space}`
    })
const goodEvent = eventOf(goodName, goodTime, goodProperties)
/** Texts that would be events if a line could hold a part of one, or two. */
const crooked = fc.constantFrom(
  '1',
  '[]',
  '"e"',
  'null',
  '{}',
  '{',
  '{"event":"a","distinct_id":"u","properties":{"x":[',
)
const anyEvent = fc.oneof({ weight: 5, arbitrary: eventOf(name, time, properties) }, crooked)
const lineEnd = fc.constantFrom('\n', '\n', '\r\n', '\n\n', '\n \t\n\r\n')

t.test('import', async (t) => {
  const env = { ...(await settingsFor(t, 'lanes')), FACTS: 'off', BATCH_BODY_LIMIT: String(BODY_LIMIT) }
  const client = await startApp(t, env)
  const { call } = client
  const send = (lines: string | Buffer, headers: Record<string, string> = {}) =>
    call('POST', '/public/import', lines, { ...NDJSON, ...headers })
  const event = (distinct_id: string, more = '') => `{"event":"e","distinct_id":"${distinct_id}"${more}}`

  /** The texts of a user's events, without their ids. */
  async function stored(user: string): Promise<string[]> {
    const { body } = await call('GET', `/public/events?limit=10000&distinct_id=${encodeURIComponent(user)}`)
    if (JSON.parse(body).pending !== 0) throw new Error('the store has not caught up')
    return elementTexts(memberText(body, 'events') ?? '').map((text) => text.replace(/^\{"eventId":"[^"]*",/, '{'))
  }

  t.test('accepts lines, and returns the number of events', async (t) => {
    const user = randomName('user')
    const texts = [1, 2, 3].map((n) => event(user, `,"timestamp":${n},"properties":{ "n" : ${n}.0}`))
    const response = await send(`\n${texts[0]}\r\n \t\n\n${texts[1]}\n${texts[2]}`)
    t.equal(response.body, '{"status":1,"error":null,"accepted":3}')
    t.strictSame(
      (await stored(user)).map((text) => memberText(text, 'properties')),
      ['{ "n" : 1.0}', '{ "n" : 2.0}', '{ "n" : 3.0}'],
    )
    t.equal((await send(gzipSync(`${texts[0]}\n`), { 'content-encoding': 'gzip' })).json().accepted, 1)
  })

  t.test('accepts the output of the export', async (t) => {
    const user = randomName('user')
    await send(event(user, ',"timestamp":5,"properties":{"a":"\\\\"},"session_id":"s \\"1\\""'))
    const { body } = await call('GET', `/public/export?distinct_id=${user}`)
    t.match(body, /^\{"eventId"/)
    t.equal((await send(body)).json().accepted, 1)
    const [first, second] = await stored(user)
    t.equal(second, first)
  })

  t.test('a line has exactly one event, independent of others', async (t) => {
    const user = randomName('user')
    const good = event(user)
    for (const [lines, ...paths] of [
      [`${good},${good}`, '/events/0'],
      [`${good} ${good}`, '/events/0'],
      [`${good}\n${good},${good}\n${good}`, '/events/1'],
      [`{"event":"e",\n"distinct_id":"${user}"}`, '/events/0', '/events/1'],
      [`${good}\n{"event":"e","distinct_id":"${user}","properties":{"x":[`, '/events/1'],
      [`${good}],"x":[${good}`, '/events/0'],
      [`${good}]}`, '/events/0'],
      [`[${good}]`, '/events/0'],
      [`{"events":[${good}]}`, '/events/0'],
      [`\ufeff${good}`, '/events/0'],
    ] as [string, ...string[]][]) {
      const response = await send(lines)
      t.equal(response.statusCode, 400, lines)
      t.strictSame(
        response.json().details.map(({ path }: { path: string }) => /^\/events\/\d+/.exec(path)?.[0]),
        paths,
        lines,
      )
    }
    const response = await send(Buffer.concat([Buffer.from(`${good}\n`), Buffer.from([0xff])]))
    t.match(response.json(), {
      code: 'invalid_json',
      details: [{ path: '/events/1', message: 'is not valid UTF-8' }],
    })
    t.strictSame(await stored(user), [])
  })

  t.test('the key is checked before the lines', async (t) => {
    const user = randomName('user')
    for (const lines of [event(user), event(user, ',"price":3'), '{', '', `{"apiKey":"${SECRET_KEY}"}`]) {
      const response = await client.app.inject({
        method: 'POST',
        url: '/public/import',
        headers: NDJSON,
        payload: lines,
      })
      t.match(response.json(), { code: 'unauthorized' }, lines)
    }
  })

  t.test('unknown fields are refused without properties, and ignored with them', async (t) => {
    const user = randomName('user')
    for (const other of [',"price":3', ',"\\u0070rice":3', ',"timestamp":1.5,"price":3']) {
      const response = await send(`${event(user)}\n${event(user, other)}`)
      t.match(response.json(), { code: 'invalid_request', details: [{ path: '/events/1', message: /properties/ }] })
      t.equal(response.json().details.length, 1)
    }
    t.equal((await send(event(user, ',"price":3,"properties":null'))).statusCode, 200)
    t.equal((await stored(user)).length, 1)
  })

  t.test('accepts 1 to 1000 lines, within the body limit of a batch', async (t) => {
    const user = randomName('user')
    const lines = (count: number) => Array.from({ length: count }, () => event(user)).join('\n\n')
    t.equal((await send(lines(1000))).json().accepted, 1000)
    t.match((await send(lines(1001))).json(), { code: 'too_many_events' })
    t.match((await send(`${lines(1000)}\nx`)).json(), { code: 'too_many_events' })
    for (const none of ['', '\n', ' \r\n\t']) {
      t.match(
        (await send(none)).json(),
        { code: 'invalid_request', details: [{ path: '/events' }] },
        JSON.stringify(none),
      )
    }
    const fill = BODY_LIMIT - event(user, ',"properties":{"x":""}').length
    const largest = event(user, `,"properties":{"x":"${'x'.repeat(fill)}"}`)
    t.equal(largest.length, BODY_LIMIT)
    t.equal((await send(largest)).statusCode, 200)
    t.equal((await send(`${largest}\n`)).statusCode, 413)
  })

  t.test('accepts only lines, with a key that may send', async (t) => {
    const line = event(randomName('user'))
    for (const type of ['application/json', 'text/plain']) {
      t.equal((await send(line, { 'content-type': type })).statusCode, 415, type)
    }
    t.equal((await call('POST', '/public/track/batch', line, NDJSON)).statusCode, 415)
    t.equal((await send(line, { 'content-type': 'application/x-ndjson; charset=utf-8' })).statusCode, 200)
    t.match((await send(line, { 'x-api-key': PUBLIC_KEY })).json(), { code: 'wrong_key_kind' })
    t.match((await send(line, { 'x-api-key': 'sk_unknown' })).json(), { code: 'unauthorized' })
  })

  t.test('lines contain no key, whatever they look like', async (t) => {
    const user = randomName('user')
    const large = `,"apiKey":"${SECRET_KEY}","properties":{"x":"${'x'.repeat(20_000)}"}`
    for (const lines of [event(user, large), `${event(user, large)}],"apiKey":"${SECRET_KEY}","x":[${event(user)}`]) {
      const response = await client.app.inject({
        method: 'POST',
        url: '/public/import',
        headers: NDJSON,
        payload: lines,
      })
      t.match(response.json(), { code: 'unauthorized' })
    }
    t.equal((await send(event(user, large))).statusCode, 200)
    t.notMatch((await stored(user)).join(), SECRET_KEY)
  })

  t.test('a retry with the same Idempotency-Key stores nothing', async (t) => {
    const user = randomName('user')
    const key = { 'idempotency-key': randomUUID() }
    for (const _ of [1, 2]) t.equal((await send(`${event(user)}\n${event(user)}\n`, key)).json().accepted, 2)
    t.match((await send(`${event(user)}\n`, key)).json(), { code: 'idempotency_conflict' })
    t.equal((await stored(user)).length, 2)
    const once = event(user, ',"insert_id":"i"')
    t.equal((await send(`${once}\n${once}`)).json().accepted, 2)
    t.equal((await stored(user)).length, 3)
  })

  t.test('lines are refused like the same batch', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 6 }), lineEnd, async (texts, end) => {
        const batch = await call('POST', '/public/track/batch', `{"events":[${texts.join()}]}`)
        const lines = await send(texts.join(end))
        // In a batch, one that is not JSON affects all others; for lines, the response names it.
        const isJson = texts.every((text) => isValid(text))
        if (!isJson) t.equal(lines.statusCode, 400)
        else t.strictSame(lines.json(), batch.json(), JSON.stringify(texts))
      }),
      { numRuns: 15 },
    )
  })

  t.test('lines are stored like the same batch, byte for byte', async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(goodEvent, { minLength: 1, maxLength: 6 }), lineEnd, async (texts, end) => {
        const [user, other] = [randomName('user'), randomName('user')]
        const of = (user: string) =>
          texts.map((text) => text.replace(/"distinct_id":(\s*)"[^"]*(\\n)?"/, `"distinct_id":$1"${user}"`))
        t.equal((await call('POST', '/public/track/batch', `{"events":[${of(user).join()}]}`)).statusCode, 200)
        t.equal((await send(of(other).join(end))).statusCode, 200, JSON.stringify(texts))
        const [one, two] = await Promise.all([stored(user), stored(other)])
        // Only the events of one lane are in order.
        t.strictSame(two.map((text) => text.replaceAll(other, user)).sort(), one.sort())
      }),
      { numRuns: 15 },
    )
  })
})

function isValid(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
