import Rudder from '@rudderstack/rudder-sdk-node'
import { Analytics } from '@segment/analytics-node'
import { PostHog } from 'posthog-node'
import t, { type Test } from 'tap'
import { STORAGES, settingsFor } from '../helper.js'
import { type SdkApp, startSdkApp } from '../routes/vendors/sdk-app.js'
import { type Fault, startSdkProxy } from './sdk-proxy.js'

const FAULTS: Fault[] = ['none', '503', 'cut']
const EVENTS = 12
const PROPERTIES = { unicode: 'é漢😀', price: 9.9, list: [1, null, 'x'], nested: { a: { b: [] } } }

/** Sends `EVENTS` events and a profile of one user, and ends when the SDK says that everything is delivered. */
type Send = (url: string, key: string, user: string) => Promise<void>

const SDKS: Record<string, Send> = {
  async 'analytics-node'(url, writeKey, userId) {
    const sdk = new Analytics({ writeKey, host: url, path: '/segment/v1/batch', maxRetries: 5, flushAt: 5 })
    const errors: unknown[] = []
    sdk.on('error', (error) => errors.push(error))
    const sent = Array.from({ length: EVENTS }, (_, i) => {
      return new Promise<void>((resolve, reject) => {
        sdk.track({ userId, event: `e${i}`, properties: PROPERTIES }, (error) => (error ? reject(error) : resolve()))
      })
    })
    sdk.identify({ userId, traits: { plan: 'pro' } })
    sdk.group({ userId, groupId: `g-${userId}`, traits: { seats: 5 } })
    await sdk.closeAndFlush({ timeout: 30_000 })
    await Promise.all(sent)
    if (errors.length > 0) throw errors[0]
  },
  async 'rudder-sdk-node'(url, key, userId) {
    const sdk = new Rudder(key, { dataPlaneUrl: url, path: '/segment/v1/batch', flushAt: 5, retryCount: 5 })
    const sent = Array.from({ length: EVENTS }, (_, i) => {
      return new Promise<void>((resolve, reject) => {
        const done = (error?: Error) => (error ? reject(error) : resolve())
        sdk.track({ userId, event: `e${i}`, properties: PROPERTIES }, done as () => void)
      })
    })
    sdk.identify({ userId, traits: { plan: 'pro' } })
    sdk.group({ userId, groupId: `g-${userId}`, traits: { seats: 5 } })
    await sdk.flush()
    await Promise.all(sent)
    await sdk.flush()
  },
  async 'posthog-node'(url, key, distinctId) {
    const sdk = new PostHog(key, { host: `${url}/posthog`, flushAt: 5, fetchRetryDelay: 50, fetchRetryCount: 5 })
    const errors: unknown[] = []
    sdk.on('error', (error) => errors.push(error))
    for (let i = 0; i < EVENTS; i++) sdk.capture({ distinctId, event: `e${i}`, properties: PROPERTIES })
    sdk.identify({ distinctId, properties: { plan: 'pro' } })
    sdk.groupIdentify({ groupType: 'g', groupKey: distinctId, properties: { seats: 5 }, distinctId })
    await sdk.shutdown(30_000)
    if (errors.length > 0) throw errors[0]
  },
}

async function check(t: Test, { events, user, keys }: SdkApp, name: string, lost: boolean): Promise<void> {
  const stored = await events(`&distinct_id=${name}`)
  const own = stored.filter(({ event }) => event.startsWith('e'))
  const wanted = Array.from({ length: EVENTS }, (_, i) => `e${i}`).sort()
  t.strictSame(
    own.map(({ event }) => event).sort(),
    wanted,
    `each event once${lost ? ', though answers were lost' : ''}`,
  )
  for (const { properties } of own) t.match(properties, PROPERTIES)
  t.equal(stored.length, EVENTS + 2, 'a message about profiles is an event, too')
  t.notMatch(JSON.stringify(stored), keys.write, 'no key is stored')
  t.match(await user(name), { plan: 'pro' })
}

for (const storage of STORAGES) {
  t.test(`the vendors' SDKs for Node, storage ${storage}`, async (t) => {
    const app = await startSdkApp(t, {}, await settingsFor(t, storage))
    const service = await app.client.app.listen({ port: 0, host: '127.0.0.1' })
    const proxy = await startSdkProxy(t, service)
    for (const fault of FAULTS) {
      for (const [sdk, send] of Object.entries(SDKS)) {
        await t.test(`${sdk}, fault ${fault}`, async (t) => {
          const name = `${sdk}-${fault}`
          proxy.become(fault)
          await send(proxy.url, app.keys.write, name)
          if (fault !== 'none') t.ok(proxy.lost > 0, `${proxy.lost} of ${proxy.sent.length} answers were lost`)
          await check(t, app, name, fault !== 'none')
          for (const { url, headers, body } of [...proxy.sent].reverse().flatMap((sent) => [sent, sent])) {
            const again = await fetch(service + url, { method: 'POST', headers, body: new Uint8Array(body) })
            t.equal(again.status, 200)
          }
          await check(t, app, name, true)
        })
      }
    }
  })
}
