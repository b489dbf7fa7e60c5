import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/keys/keys.js'
import { SECRET_KEY, settingsFor, startApp, startClickHouse } from '../helper.js'
import { newProject } from '../shared-app.js'

const ID = '018f0000-0000-7000-8000-000000000000'

/** Every call for the secret key and for the public key, with valid bodies. */
const SECRET_CALLS: [InjectOptions['method'], string, object?][] = [
  ['POST', '/public/track', { event: 'e', distinct_id: 'u' }],
  ['POST', '/public/track/batch', { events: [{ event: 'e', distinct_id: 'u' }] }],
  ['GET', '/public/events'],
  ['PUT', `/public/events/${ID}`, { properties: {} }],
  ['DELETE', `/public/events/${ID}`],
  ['POST', '/public/users/identify', { distinct_id: 'u' }],
  ['POST', '/public/users/profile', { distinct_id: 'u', operations: { $set: { a: 1 } } }],
  ['DELETE', '/public/users/u'],
  ['GET', '/public/users/u'],
  ['GET', '/public/users'],
  ['GET', '/public/sessions/s'],
]
const PUBLIC_CALLS: [InjectOptions['method'], string, object?][] = [
  ['POST', '/public/sessions/start', { distinct_id: 'u', session_id: 's' }],
  ['POST', '/public/sessions/update', { distinct_id: 'u', session_id: 's' }],
  ['POST', '/public/sessions/end', { distinct_id: 'u', session_id: 's' }],
]

function isRefused(t: Test, response: LightMyRequestResponse, status: number, code: string, what = ''): void {
  t.match(response.json(), { status: 0, code, error: /\w \w/ }, `${what}: ${response.body}`)
  t.equal(response.statusCode, status)
  t.notOk(response.json().details)
  t.notMatch(response.body, /sk_|pk_/, 'no key in a response')
}

t.test('each call needs its key', async (t) => {
  const { app, keys } = await newProject()
  /** adds no header of its own */
  const send = (method: InjectOptions['method'], url: string, body?: unknown, headers: Record<string, string> = {}) =>
    app.inject({
      method: method ?? 'GET',
      url,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  const calls = [
    ...SECRET_CALLS.map((call) => ({ call, right: keys.secret, wrong: keys.public })),
    ...PUBLIC_CALLS.map((call) => ({ call, right: keys.public, wrong: keys.secret })),
  ]

  t.test('a missing, an unknown and a wrong key', async (t) => {
    for (const { call, right, wrong } of calls) {
      const [method, url, body] = call
      const what = `${method} ${url}`
      isRefused(t, await send(method, url, body), 401, 'unauthorized', what)
      const unknown = ['sk_unknown', '', ' ', `${right} x`, right.slice(0, -1), `${right}x`, right.toUpperCase()]
      const listed = [`${right}, ${right}`, hashKey(right), 'null', 'undefined', 'default', '__proto__']
      // The key is looked up in one place for all calls.
      for (const key of url === '/public/track' || url === '/public/sessions/start'
        ? [...unknown, ...listed]
        : ['sk_unknown', '']) {
        isRefused(t, await send(method, url, body, { 'x-api-key': key }), 401, 'unauthorized', `${what} ${key}`)
      }
      isRefused(t, await send(method, url, body, { 'x-api-key': wrong }), 403, 'wrong_key_kind', what)
      isRefused(t, await send(method, url, body, { authorization: `Bearer ${right}` }), 401, 'unauthorized', what)
      const accepted = await send(method, url, body, { 'x-api-key': right })
      t.ok([200, 404, 409].includes(accepted.statusCode), `${what}: ${accepted.body}`)
    }
  })

  t.test('the key in the body', async (t) => {
    for (const { call, right, wrong } of calls) {
      const [method, url, body] = call
      if (method !== 'POST') continue
      const withKey = (apiKey: unknown, headers = {}) => send(method, url, { apiKey, ...body }, headers)
      for (const key of ['sk_unknown', '', ' ', right.toUpperCase()]) {
        isRefused(t, await withKey(key), 401, 'unauthorized', `${url} ${key}`)
      }
      for (const key of [1, 0, true, false, [right], { key: right }, [], {}]) {
        isRefused(t, await withKey(key), 401, 'unauthorized', `${url} ${JSON.stringify(key)}`)
        const both = await withKey(key, { 'x-api-key': right })
        isRefused(t, both, 401, 'unauthorized', `${url} ${JSON.stringify(key)} and the header`)
      }
      isRefused(t, await withKey(null), 401, 'unauthorized', url)
      isRefused(t, await withKey(wrong), 403, 'wrong_key_kind', url)
      isRefused(t, await withKey(wrong, { 'x-api-key': wrong }), 403, 'wrong_key_kind', url)
      isRefused(t, await withKey(right, { 'x-api-key': wrong }), 401, 'unauthorized', url)
      isRefused(t, await withKey(wrong, { 'x-api-key': right }), 401, 'unauthorized', url)
      isRefused(t, await withKey('', { 'x-api-key': right }), 401, 'unauthorized', url)
      isRefused(t, await withKey(right, { 'x-api-key': '' }), 401, 'unauthorized', url)
      for (const response of [
        await withKey(right),
        await withKey(null, { 'x-api-key': right }),
        await withKey(right, { 'x-api-key': right }),
      ]) {
        t.ok([200, 404, 409].includes(response.statusCode), `${url}: ${response.body}`)
      }
      const twice = JSON.stringify({ apiKey: 'sk_unknown', ...body }).replace(/\}$/, `,"apiKey":"${right}"}`)
      t.not((await send(method, url, twice)).statusCode, 401, 'the last of two counts, as with JSON.parse')
    }
  })

  t.test('a key deeper in the body is ignored', async (t) => {
    const event = { event: 'e', distinct_id: 'u', apiKey: keys.secret }
    isRefused(t, await send('POST', '/public/track/batch', { events: [event] }), 401, 'unauthorized')
    const inside = { event: 'e', distinct_id: 'u', properties: { apiKey: keys.secret } }
    isRefused(t, await send('POST', '/public/track', inside), 401, 'unauthorized')
    isRefused(t, await send('POST', '/public/track', JSON.stringify([{ apiKey: keys.secret }])), 401, 'unauthorized')
    const proto = `{"__proto__":{"apiKey":"${keys.secret}"},"event":"e","distinct_id":"u"}`
    isRefused(t, await send('POST', '/public/track', proto), 401, 'unauthorized')
  })

  t.test('a key in a query string is ignored', async (t) => {
    for (const { call, right, wrong } of calls) {
      const [method, url, body] = call
      for (const name of method === 'GET' ? ['apiKey', 'x-api-key', 'api_key', 'key'] : ['apiKey']) {
        isRefused(t, await send(method, `${url}?${name}=${right}`, body), 401, 'unauthorized', `${method} ${url}`)
      }
      const accepted = await send(method, `${url}?apiKey=${wrong}`, body, { 'x-api-key': right })
      // Calls that read their query name the unknown parameter.
      const statuses = method === 'GET' || method === 'DELETE' ? [400] : [200, 404, 409]
      t.ok(statuses.includes(accepted.statusCode), `${method} ${url}: ${accepted.body}`)
      if (accepted.statusCode === 400) t.match(accepted.json().details, [{ path: '/apiKey' }])
    }
  })

  t.test('authentication comes before validation', async (t) => {
    const bad: [InjectOptions['method'], string, unknown?][] = [
      ['POST', '/public/track', {}],
      ['POST', '/public/track', { event: 1, distinct_id: '', timestamp: -1 }],
      ['POST', '/public/track', []],
      ['POST', '/public/track', 'null'],
      ['POST', '/public/track'],
      ['POST', '/public/track/batch', { events: Array.from({ length: 1001 }, () => ({})) }],
      ['GET', '/public/events?limit=0'],
      ['GET', '/public/events?cursor=x'],
      ['PUT', '/public/events/nonsense', {}],
      ['DELETE', '/public/events/nonsense'],
      ['POST', '/public/users/identify', {}],
      ['POST', '/public/users/profile', { distinct_id: 'u', operations: { $wrong: 1 } }],
      ['GET', '/public/users?limit=abc'],
      ['GET', '/public/sessions/unknown'],
    ]
    for (const [method, url, body] of bad) {
      const what = `${method} ${url}`
      isRefused(t, await send(method, url, body), 401, 'unauthorized', what)
      isRefused(t, await send(method, url, body, { 'x-api-key': 'sk_unknown' }), 401, 'unauthorized', what)
      isRefused(t, await send(method, url, body, { 'x-api-key': keys.public }), 403, 'wrong_key_kind', what)
      const accepted = await send(method, url, body, { 'x-api-key': keys.secret })
      t.ok([400, 404].includes(accepted.statusCode), `${what}: ${accepted.body}`)
    }
    for (const [body, more] of [
      ['{'],
      [''],
      ['x'.repeat(2 ** 21)],
      ['{}', { 'content-encoding': 'gzip' }],
      ['<event/>', { 'content-type': 'application/xml' }],
    ] as const) {
      const what = body.slice(0, 10)
      const wrong = { 'x-api-key': keys.public, ...more }
      isRefused(t, await send('POST', '/public/track', body, wrong), 403, 'wrong_key_kind', what)
      const session = await send('POST', '/public/sessions/start', body, { ...more, 'x-api-key': keys.secret })
      isRefused(t, session, 403, 'wrong_key_kind', what)
      const right = await send('POST', '/public/track', body, { ...more, 'x-api-key': keys.secret })
      t.ok([400, 413, 415].includes(right.statusCode), what)
    }
    isRefused(t, await send('POST', '/public/sessions/start', {}), 401, 'unauthorized')
    isRefused(t, await send('POST', '/public/sessions/start', { apiKey: keys.secret }), 403, 'wrong_key_kind')
    const keyed = await send(
      'POST',
      '/public/track',
      { event: 'e', distinct_id: 'u' },
      { 'idempotency-key': 'k'.repeat(300) },
    )
    isRefused(t, keyed, 401, 'unauthorized', 'before the Idempotency-Key')
  })

  t.test('a refused call changes nothing', async (t) => {
    const key = { 'x-api-key': keys.secret }
    const { headers } = await send('POST', '/public/track', { event: 'e', distinct_id: 'refused' }, key)
    const url = `/public/events/${headers['x-event-id']}`
    for (const key of ['sk_unknown', keys.public]) {
      for (const response of [
        await send('PUT', url, { properties: { a: 1 } }, { 'x-api-key': key }),
        await send('DELETE', url, undefined, { 'x-api-key': key }),
        await send('POST', '/public/track', { event: 'e', distinct_id: 'refused' }, { 'x-api-key': key }),
        await send('POST', '/public/users/identify', { distinct_id: 'refused' }, { 'x-api-key': key }),
      ]) {
        t.ok([401, 403].includes(response.statusCode))
      }
    }
    const events = await send('GET', '/public/events?distinct_id=refused', undefined, key)
    t.strictSame(
      events.json().events.map(({ properties }: { properties: object }) => properties),
      [{}],
    )
    t.equal((await send('GET', '/public/users/refused', undefined, key)).statusCode, 404)
  })

  t.test('health needs no key', async (t) => {
    t.equal((await send('GET', '/health/live')).statusCode, 200)
    t.equal((await send('GET', '/health/live', undefined, { 'x-api-key': 'unknown' })).statusCode, 200)
  })
})

t.test('without the store, valid keys are served and unknown ones refused', async (t) => {
  const clickhouse = await startClickHouse(t)
  const { CLICKHOUSE_URL: _, ...env } = await settingsFor(t, 'embedded')
  const { call } = await startApp(t, { ...env, FACTS: 'off', CLICKHOUSE_URL: clickhouse.url })
  await clickhouse.close()
  const track = (key: string) => {
    return call('POST', '/public/track', { event: 'e', distinct_id: 'u' }, { 'x-api-key': key })
  }
  const startedAt = performance.now()
  for (let i = 0; i < 50; i++) t.equal((await track(makeKey('secret'))).statusCode, 401)
  t.equal((await track(SECRET_KEY)).statusCode, 200)
  t.ok(performance.now() - startedAt < 60_000)
})
