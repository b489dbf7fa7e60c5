import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { KnownNames } from '../../../src/http/admission/known-names.js'
import { doorsOf, freshAddress, inflating, json, keyed, sending, startLimited } from '../../browser-keys.js'
import { settingsFor, startClickHouse } from '../../helper.js'

const MIB = 1024 * 1024
/** Small enough that one body uses it up. */
const WORK = { WORK_ADDRESS_LIMIT: '16384', WORK_KEY_LIMIT: '65536' }
/** Padding that compresses to a thousandth. */
const PADDING = 'x'.repeat(600_000)
/** For each of many calls: just more than an address may inflate at a time. */
const LITTLE_PADDING = 'x'.repeat(200_000)

function isRefused({ statusCode, headers }: LightMyRequestResponse): boolean {
  const hasHeaders = ['retry-after', 'ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset'].every(
    (name) => headers[name] !== undefined,
  )
  // posthog-js drops requests that get a 429.
  return hasHeaders && (statusCode === 429 || statusCode === 503)
}

const engine = await startClickHouse(t)
/** The services of these tests use the same storage, one after the other. */
const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off', CLICKHOUSE_URL: engine.url }

t.test('limits of the work that a key or an address may cause', async (t) => {
  const service = await startLimited(t, env, WORK)
  // Each test begins with full buckets.
  t.beforeEach(() => service.pass(3_600_000))

  t.test('every call that accepts a page key is counted, and refused over the limit', async (t) => {
    const { send, keys } = service
    const doors = await doorsOf(t, service, keys.write)
    const urls = doors.map(({ method, url }) => `${method} ${url}`)
    for (const path of ['track', 'track/batch', 'import', 'users/identify', 'users/profile', 'users/alias']) {
      t.ok(urls.includes(`POST /public/${path}`), path)
    }
    for (const path of ['start', 'update', 'end']) t.ok(urls.includes(`POST /public/sessions/${path}`), path)
    for (const vendor of ['segment', 'jitsu', 'posthog', 'mixpanel', 'amplitude', 'openpanel']) {
      t.ok(
        urls.some((url) => url.includes(`/${vendor}/`)),
        vendor,
      )
    }
    for (const { method, url } of doors) {
      const call = sending(method, url, keyed(keys.write))
      const address = freshAddress()
      t.notOk(isRefused(await send(call, address)), `${method} ${url} from an address that did nothing`)
      if (method === 'POST') {
        const costly = inflating(url, keyed(keys.write), { pad: LITTLE_PADDING })
        t.notOk(isRefused(await send(costly, address)), `${url}: a body that fits the rest`)
      } else {
        await send(inflating('/public/track', keyed(keys.write), { pad: LITTLE_PADDING }), address)
      }
      const refused = await send(call, address)
      t.ok(isRefused(refused), `${method} ${url} afterwards: ${refused.statusCode} ${refused.body}`)
      t.equal(refused.statusCode, url.startsWith('/posthog') ? 503 : 429, url)
      service.pass(3_600_000)
    }
  })

  t.test('only one of several concurrent bodies may make a debt', async (t) => {
    const { send, keys, pass } = service
    for (const headers of [keyed(keys.write), {}]) {
      const address = freshAddress()
      const event = { event: 'e', distinct_id: 'u', properties: { pad: PADDING }, apiKey: keys.write }
      const body = inflating('/public/track/batch', headers, { events: [event], apiKey: keys.write })
      const sent = Array.from({ length: 20 }, async () => (await send(body, address)).statusCode)
      const statuses = (await Promise.all(sent)).sort()
      t.strictSame(statuses, [200, ...Array(19).fill(429)])
      pass(3_600_000)
    }
  })

  t.test('a secret key at the end of a body makes no debt', async (t) => {
    const { send, keys } = service
    const address = freshAddress()
    const event = { event: 'e', distinct_id: 'u', properties: { pad: PADDING }, apiKey: keys.secret }
    for (let i = 0; i < 3; i++) {
      t.equal((await send(inflating('/public/track', {}, event), address)).statusCode, 200)
    }
    const page = json('/public/track', keys.write, { event: 'e', distinct_id: 'u' })
    t.equal((await send(page, address)).statusCode, 200)
  })

  t.test('one key, from any addresses', async (t) => {
    const { send, keys } = service
    const body = inflating('/public/track', keyed(keys.write), { event: 'e', distinct_id: 'u', pad: PADDING })
    t.equal((await send(body)).statusCode, 200)
    const refused = await send(body)
    t.equal(refused.statusCode, 429)
    t.match(refused.json(), { error: /^This key may cause 65536 bytes of work a second/ })
    const session = { distinct_id: 'u', session_id: 's', properties: {} }
    t.equal((await send(json('/public/sessions/start', keys.public, session))).statusCode, 200, 'another key')
  })

  t.test('changes of large profiles and sessions', async (t) => {
    const { send, keys, pass } = service
    const big = { distinct_id: `big`, properties: { pad: PADDING } }
    t.equal((await send(json('/public/users/identify', keys.secret, big))).statusCode, 200)
    const add = { distinct_id: big.distinct_id, operations: { $add: { n: 1 } } }
    const calls = {
      $add: json('/public/users/profile', keys.write, add),
      'a change that fails': json('/public/users/profile', keys.write, {
        ...add,
        operations: { $add: { pad: 1 } },
      }),
      "a vendor's": json('/mixpanel/engage', keys.write, {
        $token: keys.write,
        $distinct_id: big.distinct_id,
        $add: { n: 1 },
      }),
      'an alias of one who is somebody': json('/public/users/alias', keys.write, {
        distinct_id: 'somebody',
        alias: big.distinct_id,
      }),
    }
    for (const [what, call] of Object.entries(calls)) {
      const address = freshAddress()
      t.not((await send(call, address)).statusCode, 429, what)
      t.equal((await send(call, address)).statusCode, 429, `${what}, again`)
      pass(3_600_000)
    }
    t.equal((await send(json('/public/users/profile', keys.secret, add))).statusCode, 200, 'a secret key')

    const session = { distinct_id: 'u', session_id: `big` }
    const properties = { pad: 'x'.repeat(60_000) }
    const address = freshAddress()
    const start = json('/public/sessions/start', keys.public, { ...session, properties })
    t.equal((await send(start, address)).statusCode, 200)
    const update = json('/public/sessions/update', keys.public, session)
    const statuses = []
    for (let i = 0; i < 4; i++) statuses.push((await send(update, address)).statusCode)
    t.strictSame(statuses, [200, 200, 429, 429])
  })

  t.test('small profiles are free', async (t) => {
    const { send, keys } = service
    const address = freshAddress()
    const small = { distinct_id: `small`, properties: { pad: 'x'.repeat(2_000) } }
    for (let i = 0; i < 50; i++) {
      const call = json('/public/users/identify', keys.write, small)
      t.equal((await send(call, address)).statusCode, 200)
    }
  })

  t.test('links of names, new or refused, but not repeated ones', async (t) => {
    const { send, keys } = service
    const link = (key: string, user: string, alias: string) =>
      json('/public/users/alias', key, { distinct_id: `link-${user}`, alias: `link-${alias}` })
    const countUntilRefused = async (way: (n: number) => ReturnType<typeof link>, address: string) => {
      for (let n = 0; n < 30; n++) if ((await send(way(n), address)).statusCode === 429) return n
      return null
    }
    const address = freshAddress()
    // A bucket of 128 KiB, with 8 KiB free per request; a link costs 40 KiB.
    const made = await countUntilRefused((n) => link(keys.write, 'user', `${n}`), address)
    t.ok(made !== null && made >= 4 && made <= 6, `${made} made`)
    const refused = await countUntilRefused(() => link(keys.write, 'other', '0'), freshAddress())
    t.ok(refused !== null && refused >= 4 && refused <= 6, `${refused} refused as conflicts`)
    t.equal(await countUntilRefused(() => link(keys.write, 'user', '0'), freshAddress()), null, 'repeated')
    t.equal(await countUntilRefused((n) => link(keys.secret, 'user', `s${n}`), freshAddress()), null, 'a secret key')
  })
})

t.test('requests from one address', async (t) => {
  const service = await startLimited(t, env, { ADDRESS_LIMIT: '3' })
  const { send, keys, pass } = service
  const [address, other] = [freshAddress(), freshAddress()]
  const event = { event: 'e', distinct_id: 'u' }
  const session = { session_id: `requests`, distinct_id: 'u' }
  const wrong = await send(json('/public/sessions/start', keys.secret, session), address)
  t.equal(wrong.statusCode, 403, 'a call that the key must not make is not counted')
  t.equal((await send(json('/public/track', keys.write, event), address)).statusCode, 200)
  t.equal((await send(json('/public/track', '', { ...event, apiKey: keys.write }), address)).statusCode, 401)
  const inBody = { method: 'POST', url: '/public/track', payload: { ...event, apiKey: keys.write } } as const
  t.equal((await send(inBody, address)).statusCode, 200)
  t.equal((await send(json('/public/sessions/start', keys.public, session), address)).statusCode, 200)
  for (const call of [inBody, json('/public/sessions/end', keys.public, session)]) {
    const { statusCode, headers, body } = await send(call, address)
    t.equal(statusCode, 429)
    t.match(headers, { 'ratelimit-limit': '3', 'ratelimit-remaining': '0', 'retry-after': '20' })
    t.match(JSON.parse(body), { status: 0, code: 'rate_limited', error: /may make 3 requests a minute/ })
  }
  t.equal((await send(inBody, other)).statusCode, 200, 'another address')
  t.equal((await send(json('/public/track', keys.secret, event), address)).statusCode, 200, 'a secret key')
  pass(20_000)
  t.equal((await send(inBody, address)).statusCode, 200)
  t.equal((await send(inBody, address)).statusCode, 429)
})

t.test('inflated bodies', async (t) => {
  const { send, keys, pass } = await startLimited(t, env, { ...WORK, WORK_KEY_LIMIT: String(MIB) })
  const address = freshAddress()
  const event = (n: number) => ({ event: 'e', distinct_id: 'u', properties: { n, pad: PADDING } })
  const inHeader = inflating('/public/track', keyed(keys.write), event(1))
  const inBody = inflating('/public/track', {}, { ...event(2), apiKey: keys.write })
  t.equal((await send(inHeader, address)).statusCode, 200)
  for (const call of [inHeader, inBody]) {
    const refused = await send(call, address)
    t.equal(refused.statusCode, 429)
    t.match(refused.json(), { code: 'rate_limited', error: /16384 bytes of work a second/ })
    const seconds = Number(refused.headers['retry-after'])
    t.ok(seconds >= 25 && seconds <= 30, `the time the bucket takes to fill: ${seconds} s`)
  }
  const plain = json('/public/track', keys.write, event(3))
  t.equal((await send(plain, address)).statusCode, 429, 'whatever it sends')
  const secret = inflating('/public/track', {}, { apiKey: keys.secret, ...event(4) })
  t.equal((await send(secret, address)).statusCode, 200, 'a secret key, in the body')
  pass(30_000)
  t.equal((await send(inBody, address)).statusCode, 200, 'the next one, once there is something left')
  t.equal((await send(inBody, address)).statusCode, 429)
  for (let i = 0; i < 3; i++) await send(plain)
  t.equal((await send(plain)).statusCode, 200, 'bytes up to the number sent cost nothing')
})

t.test('a request refused for its address does not count for its key', async (t) => {
  const { send, keys } = await startLimited(t, env, { ...WORK, WORK_KEY_LIMIT: '100000' })
  const address = freshAddress()
  const body = inflating('/public/track', keyed(keys.write), { event: 'e', distinct_id: 'u', pad: PADDING })
  for (let i = 0; i < 5; i++) await send(body, address)
  t.equal((await send(json('/public/track', keys.write, { event: 'e', distinct_id: 'u' }))).statusCode, 200)
})

t.test('new users from one address', async (t) => {
  const { send, call, keys, pass } = await startLimited(t, env, { NEW_USERS_LIMIT: '2' })
  const name = (n: string) => `new-${n}`
  const identify = (n: string) => json('/public/users/identify', keys.write, { distinct_id: name(n) })
  const ways = {
    identify,
    profile: (n: string) =>
      json('/public/users/profile', keys.write, { distinct_id: name(n), operations: { $set: { a: 1 } } }),
    alias: (n: string) => json('/public/users/alias', keys.write, { distinct_id: name('a'), alias: name(n) }),
    "a vendor's": (n: string) =>
      json('/segment/v1/identify', keys.write, { type: 'identify', userId: name(n), messageId: n, traits: {} }),
  }
  for (const [what, way] of Object.entries(ways)) {
    const address = freshAddress()
    const statuses = []
    for (const i of [1, 2, 3]) statuses.push((await send(way(`${what}-${i}`), address)).statusCode)
    t.strictSame(statuses, [200, 200, 429], what)
    const refused = await send(way(`${what}-4`), address)
    t.match(refused.headers, { 'ratelimit-limit': '2', 'retry-after': '1800' })
    t.equal((await send(way(`${what}-1`), address)).statusCode, 200, 'existing users')
    pass(1_800_000)
    t.equal((await send(way(`${what}-3`), address)).statusCode, 200, 'later')
  }
  const address = freshAddress()
  for (let i = 0; i < 4; i++) {
    const secret = json('/public/users/identify', keys.secret, { distinct_id: name(`secret-${i}`) })
    t.equal((await send(secret, address)).statusCode, 200, 'a secret key')
  }
  const user = await call('GET', `/public/users/${name('identify-4')}`, undefined, keyed(keys.secret))
  t.equal(user.statusCode, 404, 'a refused call has stored nothing')
})

t.test('new visitors from one address', async (t) => {
  const { send, keys, pass } = await startLimited(t, env, { NEW_VISITORS_LIMIT: '3' })
  let count = 0
  const fresh = () => `visitor-${++count} \u00fc"`
  const batch = (...names: string[]) =>
    json('/public/track/batch', keys.write, { events: names.map((name) => ({ event: 'e', distinct_id: name })) })
  const lines = (name: string) => ({
    ...({ method: 'POST', url: '/public/import' } as const),
    headers: { ...keyed(keys.write), 'content-type': 'application/x-ndjson' },
    payload: `${JSON.stringify({ event: 'e', distinct_id: name })}\n`,
  })
  const ways: Record<string, (name: string) => InjectOptions> = {
    'an event': (name) => json('/public/track', keys.write, { event: 'e', distinct_id: name }),
    'a parsed event': (name) => ({
      ...lines(name),
      url: '/public/track',
      headers: { ...keyed(keys.write), 'content-type': 'application/json' },
      payload: `{"\\u0065vent":"e","distinct_id":${JSON.stringify(name)}}`,
    }),
    'a batch': (name) => batch(name, name),
    lines,
    'a session': (name) => json('/public/sessions/start', keys.public, { distinct_id: name, session_id: name }),
    "a vendor's": (name) =>
      json('/segment/v1/track', keys.write, { type: 'track', event: 'e', userId: name, messageId: name }),
  }
  for (const [what, way] of Object.entries(ways)) {
    const address = freshAddress()
    const names = [fresh(), fresh(), fresh(), fresh()]
    const statuses = []
    for (const name of names) statuses.push((await send(way(name), address)).statusCode)
    t.strictSame(statuses, [200, 200, 200, 429], what)
    const refused = await send(way(fresh()), address)
    t.match(refused.headers, { 'ratelimit-limit': '3', 'retry-after': '1200' })
    for (const name of names.slice(0, 3)) t.equal((await send(way(name), address)).statusCode, 200, 'one who is known')
    t.equal((await send(way(names[3] ?? ''))).statusCode, 200, 'from another address')
    pass(1_200_000)
    t.equal((await send(way(fresh()), address)).statusCode, 200, 'later')
  }
  const address = freshAddress()
  const many = batch(...Array.from({ length: 10 }, fresh))
  t.equal((await send(many, address)).statusCode, 200, 'one request may overdraw')
  t.equal((await send(batch(fresh()), address)).statusCode, 429)
  t.equal((await send(many, address)).statusCode, 200, 'repeated')
  const secret = json('/public/track', keys.secret, { event: 'e', distinct_id: fresh() })
  t.equal((await send(secret, address)).statusCode, 200, 'a secret key')
  const daily = (browser: string) => ({
    ...json('/public/track?visitor=daily', keys.write, { event: 'e' }),
    headers: { ...keyed(keys.write), 'user-agent': browser },
  })
  const other = freshAddress()
  const statuses = []
  for (const browser of 'abcda') statuses.push((await send(daily(browser), other)).statusCode)
  t.strictSame(statuses, [200, 200, 200, 429, 200], 'daily visitors')
})

t.test('names of visitors are known in their project, until a million others have appeared', async (t) => {
  const known = new KnownNames()
  const names = Array.from({ length: 100_000 }, (_, i) => `user ${i}`)
  const found = known.findNew('a', [...names, ...names])
  t.equal(found.length, names.length)
  known.add(found)
  t.ok(known.findNew('a', names).length < 100, 'hardly any has replaced another')
  t.equal(known.findNew('b', names).length, names.length, 'of another project')
  for (let i = 0; i < 30; i++) known.add(known.findNew(`other ${i}`, names))
  t.ok(known.findNew('a', names).length > 90_000, 'forgotten')
})

t.test('a limit of 0 means no limit', async (t) => {
  const limits = ['ADDRESS', 'WORK_ADDRESS', 'WORK_KEY', 'NEW_USERS', 'NEW_VISITORS']
  const none = Object.fromEntries(limits.map((name) => [`${name}_LIMIT`, '0']))
  const { send, keys } = await startLimited(t, env, none)
  const address = freshAddress()
  const body = { distinct_id: 'u', properties: { pad: PADDING } }
  for (let i = 0; i < 5; i++) {
    t.equal((await send(inflating('/public/users/identify', keyed(keys.write), body), address)).statusCode, 200)
  }
})
