import type { InjectOptions } from 'fastify'
import t from 'tap'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { hashKey } from '../../src/keys/keys.js'
import { type Client, PUBLIC_KEY, SECRET_KEY, settingsFor, startApp } from '../helper.js'

let now = Date.now()
const service = await startApp(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }, { now: () => now })

async function signIn({ app }: Client, key = SECRET_KEY) {
  const response = await app.inject({ method: 'POST', url: '/session', payload: { apiKey: key } })
  const [cookie] = response.cookies
  return { response, cookie, csrf: response.json().session?.csrf_token }
}

/** A call with the cookie of a session and no key. */
const withCookie = (cookie: string, method: InjectOptions['method'], url: string, options: InjectOptions = {}) =>
  service.app.inject({
    method: method ?? 'GET',
    url,
    ...options,
    headers: { cookie: `${nameOf(cookie)}=${encodeURIComponent(cookie)}`, ...options.headers },
  })

/** A session of HTTPS has the prefix by which browsers take it from this host only. */
const nameOf = (cookie: string) => `${cookie.includes('.secure.') ? '__Host-' : ''}tallyhouse_sign_in`

t.test('a key starts a sign-in that no script can read and no other site can use', async (t) => {
  const { response, cookie } = await signIn(service)
  t.equal(response.statusCode, 200)
  t.match(response.json(), { status: 1, error: null, session: { project: 'default', key_kind: 'secret' } })
  t.match(cookie, { name: 'tallyhouse_sign_in', httpOnly: true, sameSite: 'Strict', path: '/' })
  t.notMatch(JSON.stringify(cookie), SECRET_KEY)
  t.notMatch(JSON.stringify(cookie), hashKey(SECRET_KEY))
  t.equal(response.headers['cache-control'], 'no-store')
})

t.test('a sign-in reads without a key', async (t) => {
  const { cookie } = await signIn(service)
  const read = await withCookie(cookie?.value ?? '', 'GET', '/public/events')
  t.equal(read.statusCode, 200)
  t.equal((await withCookie(cookie?.value ?? '', 'GET', '/session')).json().session.project, 'default')
})

t.test('a sign-in has the settings of its project', async (t) => {
  const { cookie, response } = await signIn(service)
  t.strictSame(response.json().session.settings, DEFAULT_SETTINGS)
  await service.call('PATCH', '/public/project', { timezone: 'Asia/Tokyo' })
  const renewed = await withCookie(cookie?.value ?? '', 'GET', '/session')
  t.strictSame(renewed.json().session.settings, { ...DEFAULT_SETTINGS, timezone: 'Asia/Tokyo' })
  await service.call('PATCH', '/public/project', { timezone: null })
})

t.test("a sign-in needs the page's token to change anything", async (t) => {
  const { cookie, csrf } = await signIn(service)
  const question = { kind: 'series', series: [{ event: '*', metric: 'events' }], from: 0, to: 1000, interval: 'none' }
  const ask = (headers = {}) => withCookie(cookie?.value ?? '', 'POST', '/public/query', { headers, payload: question })
  const refused = await ask()
  t.equal(refused.statusCode, 403)
  t.equal(refused.json().code, 'invalid_csrf_token')
  t.equal((await ask({ 'x-csrf-token': `${csrf}x` })).statusCode, 403)
  t.equal((await ask({ 'x-csrf-token': csrf })).statusCode, 200)
  const secondTab = (await withCookie(cookie?.value ?? '', 'GET', '/session')).json().session.csrf_token
  t.equal(secondTab, csrf, 'another tab starts a new session, and this one continues')
})

t.test('a sign-in sends large bodies, and caches keep none of its responses', async (t) => {
  const { cookie, csrf } = await signIn(service)
  const note = 'x'.repeat(20_000)
  const question = {
    kind: 'series',
    series: [{ event: note.slice(0, 200) }],
    from: 0,
    to: 1000,
    interval: 'none',
    note,
  }
  const headers = { 'x-csrf-token': csrf }
  const answer = await withCookie(cookie?.value ?? '', 'POST', '/public/query', { headers, payload: question })
  t.equal(answer.statusCode, 200, answer.body.slice(0, 200))
  t.equal(answer.headers['cache-control'], 'private, no-store')
  const refused = await withCookie(cookie?.value ?? '', 'POST', '/public/query', { payload: question })
  t.equal(refused.json().code, 'invalid_csrf_token')
})

t.test('a sign-in sends events like a key, even with unknown fields', async (t) => {
  const { cookie, csrf } = await signIn(service)
  const send = (url: string, payload: string, type = 'application/json') =>
    withCookie(cookie?.value ?? '', 'POST', url, {
      headers: { 'x-csrf-token': csrf, 'content-type': type },
      payload,
    })
  const event = '{"event":"sent","distinct_id":"by-session","properties":{"n":1.0},"unknown":"a\\"b"}'
  t.equal((await send('/public/track', event)).body, '{"status":1,"error":null}')
  t.equal((await send('/public/track/batch', `{"events":[${event}]}`)).json().accepted, 1)
  t.equal((await send('/public/import', event, 'application/x-ndjson')).json().accepted, 1)
  const { body } = await withCookie(cookie?.value ?? '', 'GET', '/public/events?distinct_id=by-session')
  t.equal(body.split('"properties":{"n":1.0}').length, 4, 'each is stored')
})

t.test('a key in the request takes precedence over the sign-in', async (t) => {
  const { cookie } = await signIn(service)
  const headers = { 'x-api-key': 'sk_another_key_that_nobody_has' }
  t.equal((await withCookie(cookie?.value ?? '', 'GET', '/public/events', { headers })).statusCode, 401)
})

t.test('a key in the body also takes precedence, as in a beacon of a site on the same domain', async (t) => {
  const { cookie } = await signIn(service)
  const payload = { apiKey: PUBLIC_KEY, distinct_id: 'ada', session_id: 'beacon' }
  t.equal((await withCookie(cookie?.value ?? '', 'POST', '/public/sessions/start', { payload })).statusCode, 200)
  const again = await withCookie(cookie?.value ?? '', 'POST', '/session', { payload: { apiKey: SECRET_KEY } })
  t.equal(again.statusCode, 200)
})

t.test('a sign-in that was forged, changed or has expired is refused', async (t) => {
  const { cookie } = await signIn(service)
  const [id = '', , signature = ''] = (cookie?.value ?? '').split('.')
  for (const value of ['x', 'SECRET_KEY.9999999999999', `${id}.9999999999999.${signature}`, `${cookie?.value}x`]) {
    const response = await withCookie(value, 'GET', '/public/events')
    t.equal(response.statusCode, 401, value)
  }
  now += 8 * 86_400_000
  t.equal((await withCookie(cookie?.value ?? '', 'GET', '/public/events')).statusCode, 401)
  t.equal((await withCookie(cookie?.value ?? '', 'GET', '/session')).json().session, null)
})

t.test('only a read or secret key can sign in', async (t) => {
  for (const [key, status] of [
    [PUBLIC_KEY, 403],
    ['unknown', 401],
  ] as const) {
    const { response, cookie } = await signIn(service, key)
    t.equal(response.statusCode, status)
    t.equal(cookie, undefined)
  }
})

t.test('the cookie is Secure if the browser has the page over HTTPS, whatever proxies say', async (t) => {
  const begin = async (headers: Record<string, string>) => {
    const response = await service.app.inject({
      method: 'POST',
      url: '/session',
      headers,
      payload: { apiKey: SECRET_KEY },
    })
    return response.cookies[0]
  }
  const renewed = async (value = '', headers = {}) =>
    (await withCookie(value, 'GET', '/session', { headers })).cookies[0]
  const secure = await begin({ origin: 'https://events.example' })
  t.match(secure, { secure: true, path: '/', name: '__Host-tallyhouse_sign_in' })
  t.notOk(secure?.domain)
  const planted = { headers: { cookie: `tallyhouse_sign_in=${encodeURIComponent(secure?.value ?? '')}` } }
  t.equal((await withCookie('', 'GET', '/public/events', planted)).statusCode, 401, 'of HTTPS, not without the prefix')
  const again = await renewed(secure?.value)
  t.equal(again?.secure, true, 'a GET does not say where it comes from')
  t.equal((await renewed(again?.value))?.secure, true)
  t.equal((await withCookie(again?.value ?? '', 'GET', '/public/events')).statusCode, 200)
  for (const headers of [
    {},
    { origin: 'http://events.example' },
    { origin: 'http://localhost:3000' },
    { origin: 'null' },
  ]) {
    const plain = await begin({ ...headers, 'x-forwarded-proto': 'https' })
    t.notOk(plain?.secure, JSON.stringify(headers))
    t.notOk((await renewed(plain?.value, { 'x-forwarded-proto': 'https' }))?.secure)
    t.equal((await renewed(`${plain?.value.replace(/\.[^.]*$/, '.secure$&')}`)) ?? null, null, 'it is signed')
  }
})

t.test('signing out makes the browser forget the sign-in', async (t) => {
  const { cookie, csrf } = await signIn(service)
  const out = await withCookie(cookie?.value ?? '', 'DELETE', '/session', { headers: { 'x-csrf-token': csrf } })
  t.equal(out.statusCode, 200)
  t.match(out.cookies, [
    { name: '__Host-tallyhouse_sign_in', value: '', maxAge: 0, secure: true },
    { name: 'tallyhouse_sign_in', value: '', maxAge: 0 },
  ])
})
