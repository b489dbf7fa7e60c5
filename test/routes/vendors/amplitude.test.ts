import t from 'tap'
import { addSdkProject } from './sdk-app.js'

t.test("Amplitude's calls", async (t) => {
  const { keys, inject, events, user } = await addSdkProject()
  const event = (user_id: string, more: object = {}) => ({ event_type: 'e', user_id, time: Date.now(), ...more })
  const send = (list: unknown, api_key = keys.write, path = '/2/httpapi') =>
    inject({ method: 'POST', url: `/amplitude${path}`, payload: { api_key, events: list, options: {} } })

  await t.test('the body has the status code', async (t) => {
    for (const path of ['/2/httpapi', '/2/httpapi/', '/batch', '', '/']) {
      const response = await send([event('paths'), event('paths')], keys.write, path)
      t.equal(response.statusCode, 200, path)
      t.match(response.json(), {
        code: 200,
        events_ingested: 2,
        payload_size_bytes: Number,
        server_upload_time: Number,
      })
      t.equal(response.headers['cache-control'], 'no-store')
    }
    t.equal((await events('&distinct_id=paths')).length, 10)
    const beacon = JSON.stringify({ api_key: keys.write, events: [event('beacon')] })
    const headers = { 'content-type': 'text/plain;charset=UTF-8' }
    t.equal((await inject({ method: 'POST', url: '/amplitude/2/httpapi', payload: beacon, headers })).json().code, 200)
  })

  await t.test('one message with an event, a profile and an alias', async (t) => {
    const both = event('ada', {
      device_id: 'phone',
      session_id: 1_700_000_000_123,
      user_properties: { $add: { visits: 2 } },
      event_properties: { price: 9.9 },
    })
    const identify = event('ada', {
      event_type: '$identify',
      user_properties: { $set: { plan: 'pro' }, $append: { l: ['x', 'y'] } },
    })
    const group = {
      ...event('ada'),
      event_type: '$groupidentify',
      groups: { company: 'acme' },
      group_properties: { $set: { a: 1 } },
    }
    t.equal((await send([both, identify, group])).json().events_ingested, 3)
    const [stored, ...others] = await events('&distinct_id=ada')
    t.strictSame(others, [], '$identify is no event')
    t.match(stored?.properties, { price: 9.9, $amplitude: { user_id: 'ada', device_id: 'phone' } })
    t.equal(stored?.session_id, '1700000000123')
    t.strictSame(await user('phone'), { plan: 'pro', visits: 2, l: ['x', 'y'] })
    t.strictSame(await user('$group:company:acme'), { a: 1 })
    await send([event('ada', { event_type: '$identify', user_properties: { $prepend: { l: ['v', 'w'] } } })])
    t.match(await user('ada'), { l: ['v', 'w', 'x', 'y'] })
    await send([event('ada', { event_type: '$identify', user_properties: { $clearAll: '-' } })])
    t.strictSame(await user('ada'), {})
  })

  await t.test('invalid events are named, and nothing is stored', async (t) => {
    const list = [
      event('named'),
      { event_type: 'e' },
      event('named', { event_properties: [1] }),
      event('x'.repeat(256)),
      { user_id: 'named' },
      event('named', { user_properties: { $none: { a: 1 } } }),
      { ...event('named'), user_id: null },
    ]
    const response = await send(list)
    t.equal(response.statusCode, 400)
    t.match(response.json(), {
      code: 400,
      error: String,
      events_with_missing_fields: { user_id: [1, 6], event_type: [4] },
      events_with_invalid_fields: { event_properties: [2], user_id: [3], user_properties: [5] },
    })
    t.strictSame(await events('&distinct_id=named'), [])
    t.equal((await send([event('named')])).json().code, 200)
    t.equal((await events('&distinct_id=named')).length, 1)
  })

  await t.test('a change that its profile refuses does not affect the others', async (t) => {
    await send([event('late', { event_type: '$identify', user_properties: { $set: { n: 'x' } } })])
    const response = await send([event('late'), event('late', { user_properties: { $add: { n: 1 } } })])
    t.match([response.statusCode, response.json().code], [200, 200])
    t.equal((await events('&distinct_id=late')).length, 2)
    t.strictSame(await user('late'), { n: 'x' })
  })

  await t.test('an unknown key, or one of the wrong kind, gets a response that prevents a retry', async (t) => {
    for (const wrong of ['unknown', '', keys.read, keys.public]) {
      const response = await send([event('keys')], wrong)
      t.equal(response.statusCode, 400)
      t.match(response.json(), { code: 400, error: /^Invalid API key: / })
    }
    t.strictSame(await events('&distinct_id=keys'), [])
  })

  await t.test('the form of amplitude-js 8, at the prefix itself', async (t) => {
    const form = (list: unknown[], path = '', client = keys.write) => {
      const fields = { checksum: 'c', client, e: JSON.stringify(list), upload_time: String(Date.now()), v: '2' }
      const headers = { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' }
      return inject({ method: 'POST', url: `/amplitude${path}`, payload: String(new URLSearchParams(fields)), headers })
    }
    const old = {
      event_type: 'e',
      device_id: 'old',
      user_id: null,
      timestamp: 1_700_000_000_123,
      event_properties: { unicode: 'é漢😀 + &' },
    }
    for (const path of ['', '/']) {
      const response = await form([old, { event_type: 'nobody' }], path)
      t.strictSame(
        [response.statusCode, response.body, response.headers['content-type']],
        [200, 'success', 'text/plain'],
      )
    }
    const stored = await events('&distinct_id=old')
    t.equal(stored.length, 2, 'one at fault holds up nothing')
    t.match(stored[0], { timestamp: 1_700_000_000_123, properties: { unicode: 'é漢😀 + &' } })
    t.notMatch(JSON.stringify(stored), keys.write)
    t.not((await form([old], '', 'unknown')).body, 'success')
    const preflight = await inject({
      method: 'OPTIONS',
      url: '/amplitude',
      headers: {
        origin: 'https://shop.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'cross-origin-resource-policy',
      },
    })
    t.match(preflight.headers['access-control-allow-headers'], 'cross-origin-resource-policy')
  })
})
