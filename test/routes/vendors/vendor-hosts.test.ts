import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { startSdkApp } from './sdk-app.js'

const VENDOR_HOSTS =
  'posthog.example=posthog, Segment.Example=segment,rudder.example=rudder,[::1]=mixpanel,amplitude.example=amplitude,jitsu.example=jitsu,openpanel.example=openpanel'

t.test("a vendor's paths are at the root of its own host", async (t) => {
  const { client, keys, inject, events } = await startSdkApp(t, { VENDOR_HOSTS })
  const api_key = keys.write
  const at = (host: string, url: string, payload?: object, headers: Record<string, string> = {}) =>
    inject({ method: payload ? 'POST' : 'GET', url, ...(payload && { payload }), headers: { ...headers, host } })
  const batch = { api_key, batch: [{ event: 'e', distinct_id: 'hosts' }] }

  await t.test('every vendor', async (t) => {
    const message = { type: 'track', event: 'e', userId: 'hosts' }
    const key = { authorization: `Basic ${Buffer.from(`${api_key}:`).toString('base64')}` }
    const event = { event: 'e', properties: { token: api_key, distinct_id: 'hosts' } }
    for (const [host, url, body] of [
      ['posthog.example', '/batch/', batch],
      ['posthog.example', '/batch', batch],
      ['POSTHOG.EXAMPLE:8080', '/e/?ip=1', batch],
      ['posthog.example.', '/i/v0/e/', batch],
      ['posthog.example', '/posthog/batch/', batch],
      ['segment.example', '/v1/track', message],
      ['segment.example', '/v1/batch', { batch: [message] }],
      ['rudder.example', '/v1/batch', { batch: [message] }],
      ['jitsu.example', '/api/s/track', message],
      ['[::1]:3000', '/track', event],
      ['amplitude.example', '/', { api_key, events: [{ event_type: 'e', user_id: 'hosts' }] }],
      ['amplitude.example', '/2/httpapi', { api_key, events: [{ event_type: 'e', user_id: 'hosts' }] }],
      ['openpanel.example', '/track', { type: 'track', payload: { name: 'e', profileId: 'hosts' } }],
    ] as const) {
      const response = await at(host, url, body, key)
      t.equal(response.statusCode, 200, `${host}${url}: ${response.body}`)
    }
    t.equal((await events('&distinct_id=hosts')).length, 13)
    const config = await at('posthog.example', `/array/${api_key}/config`, undefined, {
      origin: 'https://shop.example',
    })
    t.equal(config.json().token, api_key)
    t.equal(config.headers['access-control-allow-origin'], 'https://shop.example')
    const metrics = await at('other.example', '/metrics')
    t.match(metrics.body, /route="\/posthog\/batch\/?"/, 'counted under its own name')
  })

  await t.test('the host serves only these and the health checks', async (t) => {
    for (const url of ['/', '/public/events', '/metrics', '/docs', '/openapi.json', '/segment/v1/batch', '/healthy']) {
      const response = await at('posthog.example', url, undefined, { 'x-api-key': keys.secret })
      t.equal(response.statusCode, 404, url)
      t.match(response.json(), { type: 'error', code: 'not_found' }, "in the vendor's format")
    }
    t.equal((await at('posthog.example', '/health/live')).statusCode, 200)
    t.equal((await at('posthog.example', '/health/ready?x=1')).statusCode, 200)
  })

  await t.test('other hosts are unchanged', async (t) => {
    for (const host of [
      'other.example',
      'posthog.example.com',
      'xposthog.example',
      '',
      '[::2]',
      'posthog.example:80:80',
    ]) {
      t.equal((await at(host, '/batch/', batch)).statusCode, 404, host)
      t.equal((await at(host, '/posthog/batch/', batch)).statusCode, 200, host)
      t.equal((await at(host, '/public/users', undefined, { 'x-api-key': keys.secret })).statusCode, 200, host)
    }
  })

  await t.test('unusual request heads', async (t) => {
    await client.app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = client.app.server.address() as AddressInfo
    const ask = async (head: string) => {
      const socket = connect(port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      await once(socket, 'connect')
      socket.write(`${head}\r\nconnection: close\r\n\r\n`)
      return (await text(socket)).slice(9, 12)
    }
    const config = `/array/${api_key}/config`
    t.equal(await ask(`GET ${config} HTTP/1.1\r\nhost: posthog.example`), '200')
    t.equal(await ask(`GET http://posthog.example${config} HTTP/1.1\r\nhost: other.example`), '200', 'the URL decides')
    t.equal(await ask(`GET http://other.example${config} HTTP/1.1\r\nhost: posthog.example`), '404')
    t.equal(await ask(`GET http://u@POSTHOG.example:80${config} HTTP/1.1\r\nhost: x`), '200')
    t.equal(await ask(`GET http://posthog.example HTTP/1.1\r\nhost: x`), '404')
    t.equal(await ask(`GET ${config} HTTP/1.1\r\nhost: posthog.example\r\nhost: other.example`), '404', 'two hosts')
    t.equal(await ask(`GET ${config} HTTP/1.1\r\nhost: other.example\r\nhost: posthog.example`), '404')
    t.equal(await ask(`GET ${config} HTTP/1.1\r\nx: 1`), '404', 'none')
    t.equal(await ask(`GET ${config} HTTP/1.0`), '404')
    t.equal(await ask(`GET /../public/users HTTP/1.1\r\nhost: posthog.example\r\nx-api-key: ${keys.secret}`), '404')
  })
})
