import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { unwrapSdkBody } from '../../src/vendors/sdk-body.js'
import { startChromium } from '../browser/chromium.js'
import { settingsFor, until } from '../helper.js'
import { startSdkApp } from '../routes/vendors/sdk-app.js'
import { type Sent, startSdkProxy } from './sdk-proxy.js'

/** tap runs everything in the root of the repository. */
const MODULES = pathToFileURL(`${process.cwd()}/node_modules/`)
const SEGMENT = '@segment/analytics-next/dist/umd/'
/** The build that most pages use: it loads the scripts that the configuration from the service names. */
const POSTHOG = 'posthog-js/dist/module.js'
const PROPERTIES = { unicode: 'é漢😀', price: 9.9, list: [1, null], nested: { a: { b: 1 } } }
const EVENTS = 6

/** A site with a different origin from the service's, with the SDKs' own bundles. */
async function startSite(t: Test) {
  const server = createServer(async (request, response) => {
    const name = basename(request.url?.split('?', 1)[0] ?? '')
    const isScript = name.endsWith('.js')
    const file = name === basename(POSTHOG) ? POSTHOG : SEGMENT + name
    const body = isScript
      ? await readFile(new URL(file, MODULES)).catch(() => null)
      : '<!doctype html><title>A page</title>'
    response.writeHead(body === null ? 404 : 200, { 'content-type': isScript ? 'text/javascript' : 'text/html' })
    response.end(body ?? '')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const settings = (values: object) => `const { url, key, user, properties, count } = ${JSON.stringify(values)};`

/** The scripts of the pages; each sends `count` events of one user, and changes of the profile. */
const SCRIPTS: Record<string, string> = {
  'analytics-next': `
    await new Promise((resolve, reject) => {
      const script = document.createElement('script')
      Object.assign(script, { src: '/index.js', onload: resolve, onerror: reject })
      document.head.append(script)
    })
    const [sdk] = await AnalyticsNext.AnalyticsBrowser.load({ writeKey: key, cdnURL: url + '/segment' })
    await sdk.identify(user, { plan: 'pro' })
    for (let i = 0; i < count; i++) await sdk.track('e' + i, properties)`,
  'posthog-js': `
    const { posthog } = await import('/module.js')
    posthog.init(key, {
      api_host: url + '/posthog', opt_out_useragent_filter: true, autocapture: false, capture_pageview: false,
      capture_pageleave: false, disable_session_recording: true, request_queue_config: { flush_interval_ms: 250 },
    })
    posthog.identify(user, { plan: 'pro' })
    for (let i = 0; i < count; i++) posthog.capture('e' + i, properties)`,
}

const ID = /"(?:messageId|uuid)":"([^"]+)"/g

/** The ids of messages for which the SDK has not received a response. */
async function unanswered(sent: Sent[]): Promise<string[]> {
  const idsOf = async ({ body }: Sent) => {
    const { json } = await unwrapSdkBody(body, '', 1e7, () => undefined)
    return Array.from(json.toString().matchAll(ID), ([, id = '']) => id)
  }
  const [lost, answered] = await Promise.all(
    [true, false].map(async (isLost) => await Promise.all(sent.filter((one) => one.isLost === isLost).map(idsOf))),
  )
  return (lost ?? []).flat().filter((id) => !answered?.flat().includes(id))
}

t.test("the vendors' SDKs in a page of another origin", async (t) => {
  const { client, keys, events, user: profile } = await startSdkApp(t, {}, await settingsFor(t, 'servers'))
  const service = await client.app.listen({ port: 0, host: '127.0.0.1' })
  const proxy = await startSdkProxy(t, service)
  const site = await startSite(t)
  const context = await startChromium(t)

  for (const [sdk, script] of Object.entries(SCRIPTS)) {
    for (const fault of ['none', '503'] as const) {
      await t.test(`${sdk}, fault ${fault}`, async (t) => {
        proxy.become(fault)
        const user = `${sdk}-${fault}`
        const page = await context.newPage()
        const errors: string[] = []
        const missing = new Set<string>()
        page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
        page.on('response', (response) => response.status() === 404 && missing.add(new URL(response.url()).pathname))
        await page.goto(`${site}/${user}`)
        const values = { url: proxy.url, key: keys.write, user, properties: PROPERTIES, count: EVENTS }
        await page.evaluate(`(async () => { ${settings(values)} ${script} })()`)
        const own = async () => (await events(`&distinct_id=${user}`)).filter(({ event }) => /^e\d$/.test(event))
        await until('all events', async () => (await own()).length >= EVENTS)
        if (fault !== 'none') {
          t.ok(proxy.lost > 0)
          await until('all repetitions', async () => (await unanswered(proxy.sent)).length === 0)
        }
        const stored = await own()
        const wanted = Array.from({ length: EVENTS }, (_, i) => `e${i}`)
        t.strictSame(stored.map(({ event }) => event).sort(), wanted, 'each event once')
        for (const { properties } of stored) t.match(properties, PROPERTIES)
        t.notMatch(JSON.stringify(await events()), keys.write, 'no key is stored')
        await until('the profile', async () => (await profile(user))?.plan === 'pro')
        const isCors = (text: string) => /CORS|preflight/i.test(text)
        t.strictSame(errors.filter(isCors), [], 'no page is refused')
        t.strictSame([...missing], [], 'the SDK requests nothing that does not exist')
        await page.close()
      })
    }
  }
})
