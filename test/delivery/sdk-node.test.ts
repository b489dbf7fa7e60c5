import { createRequire } from 'node:module'
import t, { type Test } from 'tap'
import { STORAGES, type Storage, settingsFor, until } from '../helper.js'
import { type SdkApp, startSdkApp } from '../routes/vendors/sdk-app.js'
import { type Fault, startSdkProxy } from './sdk-proxy.js'

const require = createRequire(import.meta.url)
const UNUSUAL = { unicode: 'é漢😀', price: 9.9, list: [1, 'a', null, true], nested: { a: { b: 1 } } }
const FAULTS: Fault[] = ['none', '503', 'cut']

async function start(
  t: Test,
  storage: Storage,
): Promise<SdkApp & { proxy: Awaited<ReturnType<typeof startSdkProxy>> }> {
  const app = await startSdkApp(t, {}, await settingsFor(t, storage))
  return { ...app, proxy: await startSdkProxy(t, await app.client.app.listen({ host: '127.0.0.1', port: 0 })) }
}

function without(properties: Record<string, unknown>, ...names: string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(properties).filter(([name]) => !names.includes(name)))
}

const tests: Record<string, (t: Test, storage: Storage) => Promise<void>> = {}

tests['mixpanel for Node.js'] = async (t, storage) => {
  const { keys, events, user, proxy } = await start(t, storage)
  // The types of the package name neither callbacks' errors nor all options.
  // biome-ignore lint/suspicious/noExplicitAny: an SDK without useful types
  const Mixpanel: any = require('mixpanel')
  const sdk = Mixpanel.init(keys.write, {
    host: new URL(proxy.url).host,
    path: '/mixpanel',
    protocol: 'http',
    key: keys.write,
  })
  // biome-ignore lint/suspicious/noExplicitAny: the same
  const call = (over: any, name: string, ...args: unknown[]) =>
    new Promise<unknown>((resolve) => over[name](...args, (error: unknown) => resolve([error].flat().find(Boolean))))

  await t.test('every call succeeds', async (t) => {
    const large = (length: number) => ({ distinct_id: 'ada', text: 'x'.repeat(length), $insert_id: `l${length}` })
    const batch = Array.from({ length: 120 }, (_, i) => ({ event: 'many', properties: { distinct_id: 'ada', i } }))
    const results = [
      await call(sdk, 'track', 'signed up', { distinct_id: 'ada', ...UNUSUAL }),
      await call(sdk, 'track', 'bare', {}),
      await call(sdk, 'track', 'large', large(12_000)),
      await call(sdk, 'track', 'large', large(100_000)),
      await call(sdk, 'track_batch', batch),
      await call(sdk, 'import', 'old', new Date(1_500_000_000_123), { distinct_id: 'ada' }),
      await call(sdk, 'alias', 'ada', 'ada@example.org'),
      await call(sdk.people, 'set', 'ada', { plan: 'pro', ...UNUSUAL }),
      await call(sdk.people, 'set_once', 'ada', 'first', 1),
      await call(sdk.people, 'increment', 'ada', 'visits', 2),
      await call(sdk.people, 'append', 'ada', 'pages', 'home'),
      await call(sdk.people, 'union', 'ada', { tags: ['a', 'b'] }),
      await call(sdk.people, 'remove', 'ada', { tags: 'a' }),
      await call(sdk.people, 'unset', 'ada', 'plan'),
      await call(sdk.people, 'track_charge', 'ada@example.org', 29.99),
      await call(sdk.groups, 'set', 'company', 'acme', { plan: 'b2b' }),
      await call(sdk.people, 'delete_user', 'ada'),
    ]
    t.strictSame(results, Array(results.length).fill(undefined))
    const stored = await events()
    t.equal(stored.length, 4 + 120 + 2)
    const [signedUp] = stored.filter(({ event }) => event === 'signed up')
    t.match(signedUp?.properties, UNUSUAL)
    t.equal(stored.filter(({ event }) => event === 'large').length, 2)
    t.equal(stored.find(({ event }) => event === 'old')?.timestamp, 1_500_000_000_123)
    t.notMatch(JSON.stringify(stored), keys.write)
    const profile = await user('ada')
    t.match(profile, {
      ...UNUSUAL,
      first: 1,
      visits: 2,
      pages: ['home'],
      tags: ['b'],
      $transactions: [{ $amount: 29.99 }],
    })
    t.notOk(profile && 'plan' in profile)
    t.strictSame(await user('$group:company:acme'), { plan: 'b2b' })
  })

  for (const fault of FAULTS.slice(1)) {
    await t.test(`answers lost by ${fault}`, async (t) => {
      proxy.become(fault)
      const names = Array.from({ length: 6 }, (_, i) => `${fault} ${i}`)
      for (const name of [...names, ...names]) {
        await call(sdk, 'track_batch', [{ event: name, properties: { distinct_id: fault, $insert_id: `id-${name}` } }])
      }
      t.equal(proxy.lost, 6, 'the SDK never retries; the caller repeats these')
      t.strictSame((await events(`&distinct_id=${fault}`)).map(({ event }) => event).sort(), names)
    })
  }
}

tests['@amplitude/analytics-node'] = async (t, storage) => {
  const { keys, events, user, proxy } = await start(t, storage)
  const amplitude = require('@amplitude/analytics-node')
  const open = (apiKey: string) => {
    const sdk = amplitude.createInstance()
    const options = {
      flushQueueSize: 10,
      flushIntervalMillis: 20,
      logLevel: 0,
      serverUrl: `${proxy.url}/amplitude/2/httpapi`,
    }
    return sdk.init(apiKey, options).promise.then(() => sdk)
  }
  const sdk = await open(keys.write)

  for (const fault of FAULTS) {
    await t.test(`with faults: ${fault}`, async (t) => {
      proxy.become(fault)
      const user_id = `user of ${fault}`
      const sent = Array.from({ length: 45 }, (_, i) =>
        sdk.track('many', { i, ...UNUSUAL }, { user_id, device_id: `device ${fault}` }),
      )
      const once = new amplitude.Identify().add('visits', 1).append('list', 'x').set('plan', 'pro')
      sent.push(sdk.identify(once, { user_id, device_id: `device ${fault}` }))
      const codes: number[] = (await Promise.all(sent.map(({ promise }) => promise))).map(({ code }) => code)
      // It gives up a batch if the connection breaks.
      if (fault !== 'cut') t.strictSame(codes, Array(46).fill(200))
      const stored = await events(`&distinct_id=${encodeURIComponent(user_id)}`)
      t.strictSame(
        stored.map(({ properties: { i } }) => Number(i)).sort((a, b) => a - b),
        Array.from({ length: 45 }, (_, i) => i),
      )
      for (const { properties } of stored) t.match(without(properties, '$amplitude', 'i'), UNUSUAL)
      t.strictSame(await user(user_id), { visits: 1, list: ['x'], plan: 'pro' })
      t.equal((await user(`device ${fault}`))?.plan, 'pro', 'the device is another name')
      t.notMatch(JSON.stringify(stored), keys.write)
      t.equal(proxy.lost > 0, fault !== 'none')
    })
  }

  await t.test('an invalid event among others', async (t) => {
    proxy.become('none')
    const events_ = [{ user_id: 'mixed' }, { user_id: 'x'.repeat(300) }, { user_id: 'mixed' }]
    const sent = await Promise.all(events_.map((more) => sdk.track('mixed', {}, more).promise))
    t.strictSame(
      sent.map(({ code }: { code: number }) => code),
      [200, 400, 200],
    )
    t.equal((await events('&distinct_id=mixed')).length, 2)
  })

  await t.test('a wrong key is not retried', async (t) => {
    const before = proxy.sent.length
    const { code, message } = await (await open('wk_wrong')).track('e', {}, { user_id: 'u' }).promise
    t.match([code, message], [400, /^Invalid API key/])
    t.equal(proxy.sent.length - before, 1)
  })
}

tests['@openpanel/sdk'] = async (t, storage) => {
  const { keys, events, user, proxy } = await start(t, storage)
  const { OpenPanel } = await import('@openpanel/sdk')
  const sdk = new OpenPanel({ clientId: keys.write, apiUrl: `${proxy.url}/openpanel` })
  await sdk.track('anonymous', UNUSUAL)
  await sdk.identify({ profileId: 'ada', firstName: 'Ada', email: 'a@b.c', properties: { plan: 'pro' } })
  await sdk.track('known', UNUSUAL)
  await sdk.increment({ profileId: 'ada', property: 'visits', value: 2 })
  await sdk.decrement({ profileId: 'ada', property: 'visits' })
  await sdk.upsertGroup({ id: 'acme', type: 'company', name: 'Acme', properties: { a: 1 } })
  await sdk.setGroup('acme')
  await sdk.track('grouped', {})
  t.equal(proxy.sent.length, 8, 'nothing is sent twice')
  const stored = await until('the events', async () => {
    const found = await events()
    return found.length === 3 && found
  })
  const of = (name: string) => stored.find(({ event }) => event === name)
  t.match(of('anonymous'), { distinct_id: '$anonymous', properties: UNUSUAL })
  t.match(of('known'), { distinct_id: 'ada', properties: UNUSUAL })
  t.match(of('grouped')?.properties, { $openpanel: { groups: ['acme'] } })
  t.match(await user('ada'), { firstName: 'Ada', email: 'a@b.c', plan: 'pro', visits: 1, $groups: ['acme'] })
  t.match(await user('$group:company:acme'), { name: 'Acme', a: 1 })
  t.notMatch(JSON.stringify(stored), keys.write)

  const wrong = new OpenPanel({ clientId: 'wk_wrong', apiUrl: `${proxy.url}/openpanel` })
  await wrong.track('e', {})
  t.equal(proxy.sent.length, 9, 'a wrong key is not tried again')
}

for (const storage of STORAGES) {
  for (const [name, test] of Object.entries(tests)) t.test(`${name}, storage ${storage}`, (t) => test(t, storage))
}
