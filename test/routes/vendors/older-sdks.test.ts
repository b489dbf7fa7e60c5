import lzString from 'lz-string'
import t from 'tap'
import { zstdFrame } from '../../zstd-frame.js'
import { addSdkProject } from './sdk-app.js'

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
const form = (fields: Record<string, unknown>) =>
  new URLSearchParams(Object.entries(fields).map(([name, value]): [string, string] => [name, asText(value)])).toString()

t.test('formats of older SDKs and HTTP APIs', async (t) => {
  const { keys, otherKey, inject, post, events, user } = await addSdkProject()
  const key = keys.write
  const send = (url: string, fields: Record<string, unknown>) =>
    inject({ method: 'POST', url, payload: form(fields), headers: FORM })

  await t.test('PostHog: lz-string, in a form and in the query', async (t) => {
    const batch = [{ event: 'lz', distinct_id: 'lz', properties: { unicode: 'é漢😀', price: 9.9 } }]
    const data = lzString.compressToBase64(JSON.stringify({ api_key: key, batch }))
    const field = `data=${encodeURIComponent(data)}`
    for (const [url, payload] of [
      ['/posthog/e/?ip=1&_=1795291912646&v=3.0.0', `${field}&compression=lz64`],
      ['/posthog/e/?compression=lz64', field],
      ['/posthog/batch/?compression=lz64', data],
    ] as const) {
      const response = await inject({ method: 'POST', url, payload, headers: FORM })
      t.strictSame([response.statusCode, response.body], [200, '{"status":1}'], url)
    }
    const stored = await events('&distinct_id=lz')
    t.equal(stored.length, 3)
    for (const { properties } of stored) t.match(properties, { unicode: 'é漢😀', price: 9.9 })
    const bomb = lzString.compressToBase64(`{"a":"${' '.repeat(1_000_000)}"}`)
    t.equal((await post('/posthog/e/?compression=lz64', `data=${encodeURIComponent(bomb)}`)).statusCode, 200)
  })

  await t.test('PostHog: /engage/ of posthog-js up to 1.70', async (t) => {
    const update = (more: object) => ({ $token: key, $distinct_id: 'engaged', $device_id: 'd', ...more })
    for (const [url, more] of [
      ['/posthog/engage/?ip=1&_=5&ver=1.20.0', { $set: { plan: 'pro', n: 1 } }],
      ['/posthog/engage', { $set_once: { n: 2, first: 1 } }],
    ] as const) {
      t.equal((await send(url, { data: base64(update(more)) })).body, '{"status":1}')
    }
    t.strictSame(await user('engaged'), { plan: 'pro', n: 1, first: 1 })
  })

  await t.test('PostHog: features that do not exist here', async (t) => {
    for (const [path, body] of [
      ['/api/surveys/?token=x', { surveys: [] }],
      ['/api/early_access_features/?token=x', { earlyAccessFeatures: [] }],
      ['/api/web_experiments/?token=x', { experiments: [] }],
      ['/api/product_tours/?token=x', { product_tours: [] }],
      ['/api/feature_flag/local_evaluation?token=x&send_cohorts', { flags: [], group_type_mapping: {}, cohorts: {} }],
      ['/api/feature_flag/local_evaluation/', { flags: [] }],
      ['/flags/definitions?token=x', { flags: [] }],
    ] as const) {
      const response = await inject({ url: `/posthog${path}`, headers: { origin: 'https://shop.example' } })
      t.equal(response.statusCode, 200, path)
      t.match(response.json(), body)
      t.equal(response.headers['access-control-allow-origin'], 'https://shop.example')
    }
  })

  await t.test('Amplitude: forms', async (t) => {
    const event = (user_id: string) => ({ event_type: 'form', user_id, time: Date.now(), event_properties: { a: 1.5 } })
    for (const value of [
      event('forms'),
      [event('forms'), event('forms')],
      [event('forms'), { event_type: 'no user' }],
    ]) {
      const response = await send('/amplitude/httpapi', { api_key: key, event: value })
      t.strictSame([response.statusCode, response.body], [200, 'success'])
    }
    const query = form({ api_key: key, event: event('forms') })
    t.equal((await inject({ url: `/amplitude/httpapi?${query}` })).body, 'success', 'a GET')
    const stored = await events('&distinct_id=forms')
    t.equal(stored.length, 5)
    t.notMatch(JSON.stringify(stored), key)

    const identification = [
      { user_id: 'named', device_id: 'phone', user_properties: { $add: { visits: 2 }, $setOnce: { first: 1 } } },
      { user_id: 'named', user_properties: { plan: 'pro' } },
    ]
    t.equal((await send('/amplitude/identify', { api_key: key, identification })).body, 'success')
    t.strictSame(await user('phone'), { visits: 2, first: 1, plan: 'pro' })
    const group = { group_type: 'company', group_value: 'acme', group_properties: { $set: { seats: 5 } } }
    t.equal((await send('/amplitude/groupidentify', { api_key: key, identification: group })).body, 'success')
    t.strictSame(await user('$group:company:acme'), { seats: 5 })
    const mapping = [{ user_id: 'shop-ada', global_user_id: 'named' }]
    t.equal((await send('/amplitude/usermap/', { api_key: key, mapping })).body, 'success')
    t.match(await user('shop-ada'), { plan: 'pro' })

    for (const [path, fields] of [
      ['/identify', { identification: [{ user_properties: { a: 1 } }] }],
      ['/groupidentify', { identification: { group_properties: {} } }],
      ['/usermap', { mapping: [{ user_id: 'a' }] }],
      ['/httpapi', { event: { event_type: 'no user' } }],
    ] as const) {
      const response = await send(`/amplitude${path}`, { api_key: key, ...fields })
      t.equal(response.statusCode, 400, path)
      t.match(response.body, /\w \w/)
    }
    const unknown = await send('/amplitude/identify', { api_key: 'wk_unknown', identification })
    t.strictSame([unknown.statusCode, unknown.json().code], [400, 400])
  })

  await t.test('Mixpanel: an image, no redirect, and decide', async (t) => {
    const event = (token = key) => ({ event: 'mail opened', properties: { token, distinct_id: 'pixel' } })
    for (const query of ['img=1', 'img=1&verbose=1', 'img=1&redirect=https%3A%2F%2Fevil.example']) {
      const data = encodeURIComponent(base64(event()))
      const response = await inject({ url: `/mixpanel/track/?data=${data}&${query}` })
      t.strictSame([response.statusCode, response.headers['content-type']], [200, 'image/gif'], query)
      t.equal(response.rawPayload.toString('latin1', 0, 6), 'GIF89a')
      t.equal(response.headers.location, undefined)
      t.equal(response.headers['cache-control'], 'no-store')
    }
    t.equal((await events('&distinct_id=pixel')).length, 3)
    for (const to of ['https://evil.example', '//evil.example', '/docs']) {
      const data = encodeURIComponent(base64(event()))
      const response = await inject({ url: `/mixpanel/track?data=${data}&redirect=${encodeURIComponent(to)}` })
      t.strictSame([response.statusCode, response.body, response.headers.location], [200, '1', undefined], to)
    }
    const refused = await inject({ url: `/mixpanel/track?data=${encodeURIComponent(base64(event(otherKey)))}&img=1` })
    t.equal(refused.headers['content-type'], 'image/gif', 'of another project')
    for (const slash of ['', '/']) {
      const decide = await inject({ url: `/mixpanel/decide${slash}?verbose=1&version=1&lib=web&token=${key}` })
      t.match(decide.json(), { config: { enable_collect_everything: false }, notifications: [], surveys: [] })
    }
  })

  await t.test('Segment: the pixel', async (t) => {
    const message = { writeKey: key, userId: 'opener', event: 'Email Opened', properties: { subject: 'é漢😀' } }
    const response = await inject({ url: `/segment/v1/pixel/track?data=${encodeURIComponent(base64(message))}` })
    t.strictSame([response.statusCode, response.headers['content-type']], [200, 'image/gif'])
    t.match(await events('&distinct_id=opener'), [{ event: 'Email Opened', properties: { subject: 'é漢😀' } }])
  })

  await t.test('a body with zstd', async (t) => {
    const batch = [{ type: 'track', event: 'zstd', userId: 'zstd' }]
    const payload = zstdFrame(JSON.stringify({ writeKey: key, batch }))
    const headers = { 'content-encoding': 'zstd', 'content-type': 'application/json' }
    const response = await inject({ method: 'POST', url: '/segment/v1/batch', payload, headers })
    t.strictSame([response.statusCode, response.body], [200, '{"success":true}'])
    t.equal((await events('&distinct_id=zstd')).length, 1)
    const cut = await inject({ method: 'POST', url: '/segment/v1/batch', payload: payload.subarray(0, -5), headers })
    t.equal(cut.statusCode, 400)
  })
})
