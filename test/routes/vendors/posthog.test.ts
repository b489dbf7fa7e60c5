import { gzipSync } from 'node:zlib'
import t from 'tap'
import { addSdkProject, basic } from './sdk-app.js'

const ORIGIN = 'https://shop.example'
const BATCHES = ['/batch', '/e', '/i/v0/e', '/capture', '/track', '/i/v0/ai/batch']
const event = (more: object = {}) => ({ event: 'e', distinct_id: 'u', properties: { a: 1.5 }, ...more })

t.test("PostHog's calls", async (t) => {
  const { keys, inject, post, events, user } = await addSdkProject()
  const send = (url: string, body: unknown, headers: Record<string, string> = {}) =>
    inject({
      method: 'POST',
      url: `/posthog${url}`,
      headers,
      payload: Buffer.isBuffer(body) ? body : JSON.stringify(body),
    })
  const api_key = keys.write
  const token = keys.write

  await t.test('every path, with and without a trailing slash: an envelope, an array and an event', async (t) => {
    const properties = { token, distinct_id: 'paths', $session_id: 's-1', unicode: 'é漢😀' }
    const own = event({ distinct_id: 'paths', properties: { $session_id: 's-1' } })
    const bodies = [
      { api_key, batch: [own], sent_at: new Date().toISOString() },
      [{ event: 'e', properties, offset: 5 }],
      { event: 'e', properties },
      { api_key, ...own },
    ]
    for (const path of BATCHES.flatMap((path) => [path, `${path}/`])) {
      for (const body of bodies) {
        const gzip = gzipSync(JSON.stringify(body))
        for (const [bytes, headers] of [
          [body, { 'content-type': 'application/json' }],
          [gzip, { 'content-type': 'text/plain' }],
          [gzip, { 'content-encoding': 'gzip', 'content-type': 'application/json' }],
        ] as const) {
          const response = await send(`${path}?ip=1&_=${Date.now()}&ver=1.2.3&compression=gzip-js`, bytes, headers)
          t.strictSame([response.statusCode, response.body], [200, '{"status":1}'], path)
        }
      }
    }
    const form = `data=${encodeURIComponent(Buffer.from(JSON.stringify(bodies[1])).toString('base64'))}`
    t.equal((await post('/posthog/e/?compression=base64', form)).body, '{"status":1}')
    const stored = await events('&distinct_id=paths')
    t.equal(stored.length, 12 * 4 * 3 + 1)
    t.notMatch(JSON.stringify(stored), token, 'no key is stored')
    t.ok(stored.every(({ session_id }) => session_id === 's-1'))
  })

  await t.test('the newer call of posthog-node names each event', async (t) => {
    const headers = { authorization: `Bearer ${api_key}` }
    const batch = [
      event({ uuid: 'good' }),
      event({ uuid: 'bad', event: '' }),
      event({ uuid: '__proto__' }),
      event(),
      null,
    ]
    const response = await send('/i/v1/analytics/events', { created_at: 'now', batch }, headers)
    t.equal(response.statusCode, 200)
    const { results } = JSON.parse(response.body.replace('__proto__', 'proto'))
    t.match(results, { good: { result: 'ok' }, proto: { result: 'ok' }, bad: { result: 'drop', details: /event/ } })
    t.equal(Object.keys(results).length, 3)
    for (const body of [{ batch: [] }, {}, []]) {
      t.strictSame((await send('/i/v1/analytics/events', body, headers)).json(), { results: {} })
    }
    t.strictSame((await send('/i/v1/analytics/events', Buffer.alloc(0), headers)).json(), { results: {} })
    t.equal((await send('/i/v1/analytics/events', { batch: 5 }, headers)).statusCode, 400)
  })

  await t.test('profiles and groups', async (t) => {
    const distinct_id = 'profile'
    const changes = [
      event({ distinct_id, event: '$set', properties: { $set: { plan: 'pro', gone: 1 }, $set_once: { first: 1 } } }),
      event({ distinct_id, event: '$identify', $set: { n: 9.9 }, $set_once: { first: 2 }, properties: {} }),
      event({ distinct_id, event: '$set', properties: { $unset: ['gone'] } }),
      event({ distinct_id, $set: { no: 1 }, properties: { $process_person_profile: false } }),
      event({
        event: '$groupidentify',
        properties: { $group_type: 'c', $group_key: 'acme', $group_set: { seats: 5 } },
      }),
    ]
    t.equal((await send('/batch/', { api_key, batch: changes })).statusCode, 200)
    t.strictSame(await user(distinct_id), { plan: 'pro', first: 1, n: 9.9 })
    t.strictSame(await user('$group:c:acme'), { seats: 5 })
  })

  await t.test('keys and their kinds', async (t) => {
    for (const [key, status] of [
      ['wk_unknown', 401],
      [keys.read, 403],
      [keys.public, 403],
      [keys.secret, 200],
    ] as const) {
      const response = await send('/e/', { api_key: key, batch: [event()] })
      t.equal(response.statusCode, status)
      if (status !== 200) t.match(response.json(), { type: 'error', code: String, detail: String, attr: null })
    }
    t.equal((await send('/e/', [event()])).statusCode, 401, 'none')
    t.equal((await send('/e/', [event()], basic(keys.write))).statusCode, 200)
  })

  await t.test('the settings that SDKs request at their start', async (t) => {
    const config = await inject({ url: `/posthog/array/${token}/config`, headers: { origin: ORIGIN } })
    t.match(config.json(), { token, hasFeatureFlags: false, analytics: { endpoint: '/i/v0/e/' }, siteApps: [] })
    t.equal(config.headers['access-control-allow-origin'], ORIGIN)
    for (const path of ['/static/none.js?v=1', '/api/projects/@current/feature_flags/x/remote_config']) {
      const missing = await inject({ url: `/posthog${path}`, headers: { origin: ORIGIN } })
      t.strictSame([missing.statusCode, missing.headers['access-control-allow-origin']], [404, ORIGIN], path)
    }
    const flags = { flags: {}, featureFlags: {}, featureFlagPayloads: {}, errorsWhileComputingFlags: false }
    t.strictSame((await send('/flags/?v=2', { token })).json(), flags)
    t.match((await send('/decide/?v=4', 'data=x')).json(), { ...flags, supportedCompression: ['gzip-js'], config: {} })
    t.strictSame((await inject({ url: `/posthog/flags/definitions?token=${token}&send_cohorts` })).json(), {
      flags: [],
      group_type_mapping: {},
      cohorts: {},
    })
    for (const path of ['/s/', '/i/v1/logs', '/i/v1/metrics', '/i/v1/traces']) {
      const response = await send(path, gzipSync('x'), { 'content-encoding': 'gzip', 'content-type': 'any/thing' })
      t.strictSame([response.statusCode, response.body], [200, '{"status":1}'], path)
    }
  })
})
