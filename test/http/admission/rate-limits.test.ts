import { randomBytes } from 'node:crypto'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import { limitedAddress, limitWrongKeys } from '../../../src/http/admission/browser-limits.js'
import { limitRate, openCounters, registerRateLimit } from '../../../src/http/admission/rate-limits.js'
import { sendError } from '../../../src/http/error-handler.js'
import { countLimits } from '../../../src/http/limit-counts.js'
import { PUBLIC_KEY, SECRET_KEY, settingsFor, startApp, startClickHouse, startRedis, until } from '../../helper.js'

const HEADERS = ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after']

const clickhouse = await startClickHouse(t)
/** The services of these tests use the same storage, one after the other. */
const embedded = { ...(await settingsFor(t, 'embedded')), FACTS: 'off', CLICKHOUSE_URL: clickhouse.url }
const servers = { ...embedded, REDIS_URL: (await startRedis(t)).url }

for (const [storage, env] of Object.entries({ embedded, servers })) {
  t.test(`limits the requests of a key on ${storage}`, async (t) => {
    const settings = { ...env, RATE_LIMIT: '3', RATE_LIMIT_WINDOW: '60' }
    const { app, call, browser } = await startApp(t, settings)
    // With Redis, all processes count together.
    const other = storage === 'servers' ? await startApp(t, settings) : { call, browser }
    const wrong = await call('GET', '/public/events', undefined, { 'x-api-key': PUBLIC_KEY })
    t.equal(wrong.statusCode, 403, 'a call that the key must not make is not counted')
    const rest = []
    for (const { call: ask } of [other, { call }, other]) {
      const { statusCode, headers } = await ask('POST', '/public/track', {
        apiKey: SECRET_KEY,
        event: 'e',
        distinct_id: 'u',
      })
      t.equal(statusCode, 200)
      t.match(headers, { 'ratelimit-limit': '3', 'ratelimit-reset': /^\d\d$/ })
      t.notOk(headers['retry-after'])
      rest.push(headers['ratelimit-remaining'])
    }
    t.strictSame(rest, ['2', '1', '0'])
    for (const url of ['/public/events', '/public/users/u']) {
      const { statusCode, headers, body } = await call('GET', url)
      t.equal(statusCode, 429)
      const seconds = String(headers['retry-after'])
      t.match(seconds, /^\d\d$/)
      t.match(headers, { 'ratelimit-limit': '3', 'ratelimit-remaining': '0', 'ratelimit-reset': seconds })
      const error = `This key may make 3 requests in 60 s. Try again in ${seconds} s.`
      t.strictSame(JSON.parse(body), { status: 0, error, code: 'rate_limited' })
    }
    const session = { distinct_id: 'u', session_id: 's' }
    for (const status of [200, 200, 200, 429]) {
      const { statusCode, headers } = await browser('/public/sessions/start', session)
      t.equal(statusCode, status, 'another key has its own limit')
      t.match(headers['access-control-expose-headers'], /retry-after/)
    }
    t.equal((await app.inject('/health/live')).statusCode, 200)
  })
}

t.test('begins a new window at zero', async (t) => {
  const key = 'sk_of_short_windows'
  const { call } = await startApp(t, { ...servers, SECRET_KEY: key, RATE_LIMIT: '1', RATE_LIMIT_WINDOW: '1' })
  const ask = () => call('GET', '/public/users/u', undefined, { 'x-api-key': key })
  const is = (status: number) => async () => (await ask()).statusCode === status
  await until('a refusal', is(429))
  await until('the next window', is(404))
})

t.test('other limits', async (t) => {
  const { app, call } = await startApp(t, { ...servers, MAX_IDEMPOTENCY_KEYS: '2', WRONG_KEY_LIMIT: '4' })

  t.test('requests are not limited by default', async (t) => {
    const { headers } = await call('GET', '/public/events')
    for (const name of HEADERS) t.notOk(headers[name], name)
  })

  t.test('limits the Idempotency-Keys of a project', async (t) => {
    const send = (key: string, path = '/public/track', body: object | string = { event: 'e', distinct_id: 'u' }) => {
      const type = typeof body === 'string' && { 'content-type': 'application/x-ndjson' }
      return call('POST', path, body, { 'idempotency-key': key, ...type })
    }
    const first = await send('first')
    t.equal(first.statusCode, 200)
    t.equal(
      (await send('second', '/public/users/profile', { distinct_id: 'u', operations: { $add: { n: 1 } } })).statusCode,
      200,
    )
    for (const [path, body] of [
      ['/public/track', undefined],
      ['/public/track/batch', { events: [{ event: 'e', distinct_id: 'u' }] }],
      ['/public/import', '{"event":"e","distinct_id":"u"}'],
      ['/public/users/profile', { distinct_id: 'u', operations: { $add: { n: 1 } } }],
    ] as const) {
      const refused = await send('third', path, body)
      t.equal(refused.statusCode, 429)
      t.match(refused.json(), { status: 0, code: 'rate_limited', error: /Idempotency-Key/ })
      t.match(refused.headers['retry-after'], /^[1-9]\d*$/)
    }
    t.equal((await send('first')).headers['x-event-id'], first.headers['x-event-id'], 'a known key is accepted')
    t.equal(
      (await call('POST', '/public/track', { event: 'e', distinct_id: 'u' })).statusCode,
      200,
      'a request without a key is accepted',
    )
    t.equal((await call('GET', '/public/users/u')).json().user.properties.n, 1)
  })

  t.test('limits wrong keys', async (t) => {
    const guess = (remoteAddress: string) => {
      const headers = { 'x-api-key': `sk_${randomBytes(32).toString('base64url')}` }
      return app.inject({ method: 'GET', url: '/public/events', headers, remoteAddress })
    }
    const statuses = []
    for (let i = 0; i < 6; i++) statuses.push((await guess('127.0.0.1')).statusCode)
    t.strictSame(statuses, [401, 401, 401, 401, 429, 429])
    const { headers, body } = await guess('127.0.0.1')
    t.match(headers, { 'ratelimit-limit': '4', 'ratelimit-remaining': '0', 'retry-after': /^\d+$/ })
    t.match(JSON.parse(body), { status: 0, code: 'rate_limited', error: /\w/ })
    t.equal((await call('GET', '/public/events')).statusCode, 200, 'a valid key from the same address is admitted')
    t.equal((await call('GET', '/public/events', undefined, { 'x-api-key': PUBLIC_KEY })).statusCode, 403)
    t.equal((await app.inject('/public/events')).statusCode, 401, 'a missing key does not count as a wrong key')
    t.equal((await guess('127.0.0.2')).statusCode, 401, 'another address has its own limit')
  })
})

t.test('wrong keys that arrive through proxies count for their client', async (t) => {
  const LIST = '10.1.0.0/16, ::1'
  /** The statuses of three guesses with a limit of two. */
  const guesses = async (app: FastifyInstance, remoteAddress: string, forwarded: (i: number) => string) => {
    const statuses = []
    for (let i = 0; i < 3; i++) {
      const headers = { 'x-api-key': 'sk_wrong', 'x-forwarded-for': forwarded(i) }
      const response = await app.inject({ method: 'GET', url: '/public/events', headers, remoteAddress })
      statuses.push(response.statusCode)
    }
    return statuses
  }
  const TOGETHER = [401, 401, 429]
  const APART = [401, 401, 401]
  const rows: [setting: string, peer: string, forwarded: (i: number) => string, expected: number[], what: string][] = [
    ['', '10.1.0.1', (i) => `203.0.113.${i}`, TOGETHER, 'no proxy is trusted by default'],
    [LIST, '10.1.0.2', (i) => `203.0.113.${i}`, APART, 'clients behind a trusted proxy are told apart'],
    [LIST, '::ffff:10.1.0.3', (i) => `203.0.114.${i}`, APART, 'also for IPv4 mapped to IPv6'],
    [LIST, '::1', () => '203.0.115.1', TOGETHER, 'one of them has one limit'],
    [LIST, '192.0.2.1', (i) => `203.0.116.${i}`, TOGETHER, 'a peer that is not a proxy cannot set an address'],
    [LIST, '10.1.0.2', (i) => `203.0.117.${i}, 192.0.2.2`, TOGETHER, 'not even through a proxy'],
    [LIST, '10.1.0.4', (i) => `203.0.118.${i}, 10.1.0.5`, APART, 'two proxies'],
    [LIST, '10.1.0.6', (i) => `unknown-${i}`, TOGETHER, 'a value that is not an address is ignored'],
  ]
  for (const setting of ['', LIST]) {
    const { app } = await startApp(t, { ...embedded, WRONG_KEY_LIMIT: '2', TRUST_PROXY: setting })
    for (const [, peer, forwarded, expected, what] of rows.filter(([of]) => of === setting)) {
      t.strictSame(await guesses(app, peer, forwarded), expected, what)
    }
    await app.close()
  }
})

/** A route that is limited to two requests. */
async function limited(t: Test, url: string) {
  const warnings: string[] = []
  const stream = { write: (line: string) => warnings.push(JSON.parse(line).msg) }
  const app = Fastify({ logger: { level: 'warn', stream } })
  app.setErrorHandler(sendError)
  countLimits(app)
  app.decorateRequest('key', 'k')
  const counters = await openCounters(url, app.log)
  t.teardown(async () => {
    await app.close()
    counters.disconnect()
  })
  registerRateLimit(app, { max: 2, windowMs: 60_000 }, counters, false)
  app.register(async (scope) => {
    scope.addHook('preValidation', limitRate(scope, app.log))
    scope.get('/', async () => 'served')
  })
  const status = async () => (await app.inject('/')).statusCode
  return { status, warnings }
}

t.test('every request passes while Redis is down or unresponsive, and the log says so once', async (t) => {
  const redis = await startRedis(t)
  const { status, warnings } = await limited(t, redis.url)
  t.strictSame([await status(), await status(), await status()], [200, 200, 429])
  redis.process.kill('SIGSTOP')
  t.strictSame([await status(), await status(), await status()], [200, 200, 200])
  t.strictSame(warnings, ['rate limits of keys are not enforced: Redis is unavailable'])
  redis.process.kill('SIGCONT')
  await until('a refusal', async () => (await status()) === 429)
  await redis.kill()
  await until('the connection to be gone', async () => (await status()) === 200)
  t.equal(await status(), 200)
  t.equal(warnings.length, 2)
  await redis.restart()
  await until('a refusal', async () => (await status()) === 429)
})

t.test('the service starts without Redis', async (t) => {
  const { status } = await limited(t, 'redis://127.0.0.1:1')
  t.strictSame([await status(), await status(), await status()], [200, 200, 200])
})

t.test('wrong keys are forgotten within a minute, and those of ten thousand addresses are counted', async (t) => {
  const warnings: unknown[] = []
  const app = Fastify({ logger: { level: 'warn', stream: { write: (line: string) => warnings.push(line) } } })
  const wrong = limitWrongKeys(1, app.log)
  const socket = { remoteAddress: '10.0.0.9' }
  const send = (ip: string, now: number) => wrong.count(limitedAddress({ ip, socket } as FastifyRequest), now)
  send('10.0.0.1', 0)
  t.throws(() => send('10.0.0.1', 59_000), { code: 'rate_limited', retryAfter: 1, allowance: 1 })
  t.throws(() => send('::ffff:10.0.0.1', 59_001), { code: 'rate_limited', retryAfter: 1 })
  t.equal(warnings.length, 1, 'one line per address and minute')
  send('10.0.0.1', 60_000)
  send('2001:db8::1', 60_000)
  t.throws(() => send('2001:db8::2', 60_000), { code: 'rate_limited' }, 'an IPv6 network counts as one address')
  for (let i = 0; i < 10_000; i++) send(`10.1.${i >> 8}.${i & 255}`, 60_000)
  t.throws(() => send('10.1.0.1', 60_000), { code: 'rate_limited' })
  for (let i = 0; i < 10; i++) send('10.2.0.1', 60_000)
})
