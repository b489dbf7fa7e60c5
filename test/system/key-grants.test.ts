import type { LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { doorsOf, json, keyed, sending, startLimited } from '../browser-keys.js'
import { type StoredEvent, settingsFor } from '../helper.js'

const SHOP = 'https://shop.example'

/** The status after which each vendor's SDKs do not repeat a request. */
function isRefusedForKey(url: string, { statusCode }: LightMyRequestResponse): boolean {
  if (url.startsWith('/amplitude')) return statusCode === 400
  return statusCode === (url.startsWith('/openpanel') ? 401 : 403)
}

t.test('a key with origins is for requests of their pages only', async (t) => {
  const origins = [SHOP, 'http://localhost:8080']
  const service = await startLimited(t, await settingsFor(t, 'embedded'), { FACTS: 'off' }, { origins })
  const { send, keys } = service
  const from = (origin: string) => ({ ...keyed(keys.write), origin })
  const other = /this request does not come from one/

  const doors = await doorsOf(t, service, keys.write, { origin: SHOP })
  t.ok(doors.length > 30, `${doors.length} calls`)
  const refusedHeaders = [
    { ...from('https://evil.example'), referer: `${SHOP}/` },
    keyed(keys.write),
    from('null'),
    from('https://shop.example.evil.example'),
    from('http://shop.example'),
    { ...keyed(keys.write), referer: 'https://evil.example/https://shop.example/' },
    { ...keyed(keys.write), referer: 'no URL' },
  ]
  const takenHeaders = [from(SHOP), from('http://localhost:8080'), { ...keyed(keys.write), referer: `${SHOP}/a?b` }]
  for (const { method, url } of doors) {
    // All calls share one check.
    const isFirst = url === '/public/track'
    for (const headers of isFirst ? refusedHeaders : refusedHeaders.slice(0, 2)) {
      const response = await send(sending(method, url, headers))
      const what = `${method} ${url} with ${JSON.stringify({ ...headers, 'x-api-key': '' })}`
      t.ok(isRefusedForKey(url, response), `${what}: ${response.statusCode}`)
      t.match(response.body, other, what)
      t.notMatch(response.body, keys.write, 'no key in a response')
    }
    // The first key has been accepted by each call before.
    for (const headers of isFirst ? takenHeaders : []) {
      t.notMatch((await send(sending(method, url, headers))).body, other, `${method} ${url}`)
    }
  }

  const event = { event: 'e', distinct_id: 'u' }
  const inBody = (headers: Record<string, string>, properties = {}) => {
    const payload = { ...event, properties, apiKey: keys.write }
    return send({ method: 'POST', url: '/public/track', headers, payload })
  }
  t.equal((await inBody({ origin: SHOP })).statusCode, 200)
  const refused = await inBody({ origin: 'https://evil.example' })
  t.equal(refused.statusCode, 403)
  t.match(refused.json(), { status: 0, code: 'wrong_key_kind', error: other })
  t.equal(refused.headers['access-control-allow-origin'], '*', 'its page may read why')
  const large = { pad: 'x'.repeat(100_000) }
  t.equal((await inBody({ origin: SHOP }, large)).statusCode, 200)
  t.equal((await inBody({}, large)).statusCode, 403)

  const session = { distinct_id: 'u', session_id: 's' }
  t.equal((await send(json('/public/sessions/start', keys.public, session))).statusCode, 403, 'a public key, too')
  const start = {
    ...json('/public/sessions/start', keys.public, session),
    headers: { ...keyed(keys.public), origin: SHOP },
  }
  t.equal((await send(start)).statusCode, 200)
  t.equal((await send(json('/public/track', keys.secret, event))).statusCode, 200, 'other keys are for everybody')

  const preflight = await send({
    method: 'OPTIONS',
    url: '/public/track',
    headers: { origin: SHOP, 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-api-key' },
  })
  t.equal(preflight.statusCode, 204, 'a preflight has no key, and is answered')
})

/** Requests of vendors' SDKs about users, and the events that are stored from them. */
const OF_VENDORS: [url: string, body: (key: string) => object, events: number][] = [
  ['/segment/v1/identify', () => ({ type: 'identify', userId: 'u', anonymousId: 'a', traits: { n: 1 } }), 1],
  ['/segment/v1/alias', () => ({ type: 'alias', userId: 'u', previousId: 'a' }), 1],
  ['/segment/v1/group', () => ({ type: 'group', userId: 'u', groupId: 'g', traits: { n: 1 } }), 1],
  ['/jitsu/api/s/identify', () => ({ type: 'identify', userId: 'u', anonymousId: 'a', traits: { n: 1 } }), 1],
  ['/mixpanel/engage', (key) => ({ $token: key, $distinct_id: 'u', $set: { n: 1 } }), 0],
  ['/mixpanel/groups', (key) => ({ $token: key, $group_key: 'k', $group_id: 'g', $set: { n: 1 } }), 0],
  [
    '/mixpanel/track',
    (key) => ({ event: '$identify', properties: { token: key, distinct_id: 'u', $anon_distinct_id: 'a' } }),
    1,
  ],
  [
    '/posthog/e/',
    (key) => ({ api_key: key, batch: [{ event: '$set', distinct_id: 'u', properties: { $set: { n: 1 } } }] }),
    1,
  ],
  [
    '/posthog/batch/',
    (key) => ({
      api_key: key,
      batch: [{ event: '$identify', distinct_id: 'u', properties: { $anon_distinct_id: 'a', $set: { n: 1 } } }],
    }),
    1,
  ],
  [
    '/amplitude/2/httpapi',
    (key) => ({
      api_key: key,
      events: [{ event_type: '$identify', user_id: 'u', user_properties: { $set: { n: 1 } } }],
    }),
    0,
  ],
  [
    '/amplitude/2/httpapi',
    (key) => ({ api_key: key, events: [{ event_type: 'e', user_id: 'u', device_id: 'a', user_properties: { n: 1 } }] }),
    1,
  ],
  ['/openpanel/track', () => ({ type: 'identify', payload: { profileId: 'u', properties: { n: 1 } } }), 0],
  ['/openpanel/track', () => ({ type: 'increment', payload: { profileId: 'u', property: 'n', value: 1 } }), 0],
]

t.test('a key for events only changes no users, and links no names', async (t) => {
  const service = await startLimited(t, await settingsFor(t, 'embedded'), { FACTS: 'off' }, { eventsOnly: true })
  const { send, keys } = service
  const event = { event: 'e', distinct_id: 'u' }
  const read = async (url: string) => await send({ url, headers: keyed(keys.secret) })
  const countOf = async () => ((await read('/public/events?limit=1000')).json().events as StoredEvent[]).length

  for (const [url, body] of [
    ['/public/track', event],
    ['/public/track/batch', { events: [event] }],
    ['/public/sessions/start', { distinct_id: 'u', session_id: 's' }],
    ['/public/sessions/update', { distinct_id: 'u', session_id: 's' }],
    ['/public/sessions/end', { distinct_id: 'u', session_id: 's' }],
  ] as const) {
    t.equal((await send(json(url, keys.write, body))).statusCode, 200, url)
  }
  for (const [url, body] of [
    ['/public/users/identify', { distinct_id: 'u' }],
    ['/public/users/profile', { distinct_id: 'u', operations: { $set: { a: 1 } } }],
    ['/public/users/alias', { distinct_id: 'u', alias: 'a' }],
  ] as const) {
    for (const call of [
      json(url, keys.write, body),
      { method: 'POST', url, payload: { ...body, apiKey: keys.write } } as const,
    ]) {
      const refused = await send(call)
      t.equal(refused.statusCode, 403, url)
      t.match(refused.json(), { code: 'wrong_key_kind', error: /cannot change users/ })
    }
    t.equal((await send(json('/public/track', keys.write, event))).statusCode, 200)
  }
  let count = await countOf()
  for (const [url, bodyOf, events] of OF_VENDORS) {
    const body = bodyOf(keys.write)
    const taken = await send(json(url, keys.write, body))
    const what = `${url} ${JSON.stringify(body).replace(keys.write, '')}`
    t.equal(taken.statusCode, 200, `${what}: ${taken.body}`)
    const before = count
    count = await countOf()
    t.equal(count - before, events, what)
  }
  t.strictSame((await read('/public/users')).json().users, [], 'no profile')
  t.equal((await read('/public/users/u/aliases')).json().aliases.length, 0, 'no other name')
  t.strictSame((await read('/public/dead-letters')).json().dead_letters, [], 'and nothing to look at')
})
