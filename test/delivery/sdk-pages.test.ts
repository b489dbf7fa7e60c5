import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startChromium } from '../browser/chromium.js'
import { until } from '../helper.js'
import { startSdkApp } from '../routes/vendors/sdk-app.js'
import { startSdkProxy } from './sdk-proxy.js'

/** tap runs everything in the root of the repository. */
const MODULES = pathToFileURL(`${process.cwd()}/node_modules/`)
const FILES: Record<string, string> = {
  '/mixpanel.js': 'mixpanel-browser/dist/mixpanel.umd.js',
  '/amplitude.js': '@amplitude/analytics-browser/lib/scripts/amplitude-min.umd.js',
  '/openpanel.js': '@openpanel/web/dist/index.js',
  '/openpanel-sdk.js': '@openpanel/sdk/dist/index.js',
}
const PROPERTIES = { unicode: 'é漢😀', price: 9.9, list: [1, null], nested: { a: { b: 1 } } }
/** Without it, SDKs take the browser for a robot, and send nothing. */
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36'

/** A site with a different origin from the service's, with the SDKs' own bundles; each of its pages has them. */
async function startSite(t: Test): Promise<string> {
  const html = `<!doctype html><title>A page</title>
    <script type="importmap">{"imports":{"@openpanel/sdk":"/openpanel-sdk.js"}}</script>
    <script src="/mixpanel.js"></script><script src="/amplitude.js"></script>
    <script type="module">window.OpenPanel = (await import('/openpanel.js')).OpenPanel; window.isReady = true</script>`
  const server = createServer(async ({ url = '/' }, response) => {
    const file = FILES[url.split('?', 1)[0] ?? '']
    response.writeHead(200, { 'content-type': file ? 'text/javascript' : 'text/html' })
    response.end(file ? await readFile(new URL(file, MODULES)) : html)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('the SDKs of Mixpanel, Amplitude and OpenPanel in a page of another origin', async (t) => {
  const { client, keys, events, user: profile } = await startSdkApp(t)
  const service = await client.app.listen({ port: 0, host: '127.0.0.1' })
  const proxy = await startSdkProxy(t, service)
  const site = await startSite(t)
  const context = await startChromium(t)
  await context.addInitScript(`Object.defineProperty(Navigator.prototype, 'userAgent', { get: () => '${AGENT}' })`)
  const key = JSON.stringify(keys.write)
  const properties = JSON.stringify(PROPERTIES)

  const errors: string[] = []
  const open = async (t: Test, path: string): Promise<Page> => {
    const page = await context.newPage()
    t.teardown(() => page.close())
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().includes('503')) errors.push(message.text())
    })
    await page.goto(`${site}/${path}`)
    await page.waitForFunction('window.isReady')
    return page
  }
  const stored = async (name: string) => (await events()).filter(({ event }) => event === name)
  const many = async (count: number, name: string) => {
    await until(name, async () => (await stored(name)).length >= count)
    return await stored(name)
  }
  const mixpanel = (more = '{}') =>
    `mixpanel.init(${key}, { api_host: '${proxy.url}/mixpanel', batch_flush_interval_ms: 100, persistence: 'localStorage', ...${more} })`
  const amplitude = `amplitude.init(${key}, 'ada-lovelace', { serverUrl: '${proxy.url}/amplitude/2/httpapi',
    flushIntervalMillis: 100, fetchRemoteConfig: false, autocapture: false }).promise`

  for (const fault of ['none', '503'] as const) {
    await t.test(`mixpanel-browser, fault ${fault}`, async (t) => {
      const page = await open(t, `mixpanel-${fault}`)
      proxy.become(fault)
      const name = `mixpanel ${fault}`
      await page.evaluate(`${mixpanel()}; mixpanel.track('${name} first'); mixpanel.identify('user ${fault}')
        for (let i = 0; i < 6; i++) mixpanel.track('${name}', { i, ...${properties} })
        mixpanel.people.set({ plan: 'pro' }); mixpanel.people.union({ tags: ['x'] })`)
      const found = await many(6, name)
      await until('the profile', async () => (await profile(`user ${fault}`))?.tags !== undefined)
      await until('the last request', async () => (await page.evaluate(PENDING)) === 0)
      t.strictSame((await many(6, name)).map(({ properties: { i } }) => i).sort(), [0, 1, 2, 3, 4, 5])
      for (const { distinct_id, properties } of found) {
        t.equal(distinct_id, `user ${fault}`)
        t.match(properties, PROPERTIES)
      }
      t.match(await profile(`user ${fault}`), { plan: 'pro', tags: ['x'] })
      const [first] = await stored(`${name} first`)
      const device = String(first?.distinct_id)
      // The event that joins them comes in a separate request.
      const joined = await until('the device to be another name', async () => await profile(device))
      t.match(joined, { plan: 'pro' })
      t.equal(proxy.lost > 0, fault !== 'none')
    })

    await t.test(`@amplitude/analytics-browser, fault ${fault}`, async (t) => {
      const page = await open(t, `amplitude-${fault}`)
      proxy.become(fault)
      const name = `amplitude ${fault}`
      const codes = await page.evaluate(`(async () => {
        await ${amplitude}
        const sent = Array.from({ length: 6 }, (_, i) => amplitude.track('${name}', { i, ...${properties} }).promise)
        sent.push(amplitude.identify(new amplitude.Identify().add('${fault}', 1)).promise)
        return (await Promise.all(sent)).map(({ code }) => code)
      })()`)
      t.strictSame(codes, Array(7).fill(200))
      const found = await many(6, name)
      t.strictSame(found.map(({ properties: { i } }) => i).sort(), [0, 1, 2, 3, 4, 5])
      for (const { distinct_id, properties } of found) {
        t.equal(distinct_id, 'ada-lovelace')
        t.match(properties, PROPERTIES)
      }
      t.equal((await profile('ada-lovelace'))?.[fault], 1, 'once')
      t.equal(proxy.lost > 0, fault !== 'none')
    })
  }

  await t.test('an event that a page left behind, and that mixpanel-browser sends twice, is stored once', async (t) => {
    proxy.become('none')
    const page = await open(t, 'leaving')
    const requests = { seen: 0 }
    await page.evaluate(`${mixpanel('{ batch_flush_interval_ms: 3_000 }')}; mixpanel.track('left')`)
    await page.goto(`${site}/next`)
    await many(1, 'left')
    t.equal(await page.evaluate(PENDING), 1, 'the next page is to send it again')
    requests.seen = proxy.sent.length
    await page.evaluate(`${mixpanel()}; mixpanel.track('arrived')`)
    await many(1, 'arrived')
    await until('the queue to be empty', async () => (await page.evaluate(PENDING)) === 0)
    t.ok(proxy.sent.length > requests.seen)
    t.equal((await stored('left')).length, 1)
  })

  await t.test('@openpanel/web', async (t) => {
    proxy.become('none')
    const page = await open(t, 'openpanel')
    await page.evaluate(`(async () => {
      const sdk = new OpenPanel({ clientId: ${key}, apiUrl: '${proxy.url}/openpanel', trackScreenViews: false })
      await sdk.track('openpanel', ${properties})
      await sdk.identify({ profileId: 'grace', firstName: 'Grace' })
      await sdk.increment({ profileId: 'grace', property: 'visits' })
      await sdk.track('openpanel', ${properties})
    })()`)
    const found = await many(2, 'openpanel')
    t.strictSame(found.map(({ distinct_id }) => distinct_id).sort(), ['$anonymous', 'grace'])
    for (const { properties } of found) t.match(properties, PROPERTIES)
    t.match(await profile('grace'), { firstName: 'Grace', visits: 1 })
  })

  t.strictSame(errors, [], 'no preflight fails')
  t.notMatch(JSON.stringify(await events()), keys.write, 'no key is stored')
})

/** Events that mixpanel-browser keeps in the page's storage until they are delivered. */
const PENDING = `Object.keys(localStorage).filter((name) => /^__mpq_.*(?:ev|pp)$/.test(name))
  .reduce((sum, name) => sum + JSON.parse(localStorage[name] || '[]').length, 0)`
