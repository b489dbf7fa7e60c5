import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pathToFileURL } from 'node:url'
import type { BrowserContext } from 'playwright-core'
import t, { type Test } from 'tap'
import { VENDORS } from '../../src/cli/doctor-sdks.js'
import { startChromium } from '../browser/chromium.js'
import { until } from '../helper.js'
import { startSdkApp } from '../routes/vendors/sdk-app.js'

/** tap runs everything in the root of the repository. */
const MODULES = pathToFileURL(`${process.cwd()}/node_modules/`)
/** Without it, SDKs take the browser for a robot, and send nothing. */
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36'

/** How a page loads an SDK, and what it does with it; only the printed line says where to send. */
interface PageSdk {
  vendor: string
  script: string
  /** before the line */
  setup?: string
  /** after it; `sdk` is what the line made */
  act: string
}

const PAGES: Record<string, PageSdk> = {
  '@segment/analytics-next': {
    vendor: 'segment',
    script: '@segment/analytics-next/dist/umd/index.js',
    setup: 'const { AnalyticsBrowser } = AnalyticsNext',
    act: "await sdk.page(); await sdk.identify('u1', { plan: 'pro' }); await sdk.track('checked', {})",
  },
  '@rudderstack/analytics-js': {
    vendor: 'rudder',
    script: '@rudderstack/analytics-js/dist/npm/modern/bundled/umd/index.js',
    setup: 'const rudder = new rudderanalytics.RudderAnalytics()',
    act: "rudder.page(); rudder.identify('u1', { plan: 'pro' }); rudder.track('checked', {})",
  },
  '@jitsu/js': {
    vendor: 'jitsu',
    script: '',
    setup: "const { jitsuAnalytics } = await import('/@jitsu/js/dist/jitsu.es.js')",
    act: "await sdk.page(); await sdk.identify('u1', { plan: 'pro' }); await sdk.track('checked', {})",
  },
  'posthog-js': {
    vendor: 'posthog',
    script: '',
    setup: "const { posthog } = await import('/posthog-js/dist/module.js')",
    act: "posthog.identify('u1', { plan: 'pro' }); posthog.capture('checked'); document.body.click()",
  },
  'mixpanel-browser': {
    vendor: 'mixpanel',
    script: 'mixpanel-browser/dist/mixpanel.umd.js',
    act: "mixpanel.identify('u1'); mixpanel.people.set({ plan: 'pro' }); mixpanel.track('checked')",
  },
  '@amplitude/analytics-browser': {
    vendor: 'amplitude',
    script: '@amplitude/analytics-browser/lib/scripts/amplitude-min.umd.js',
    act: "amplitude.setUserId('u1'); amplitude.track('checked'); document.body.click(); await fetch('/other'); throwLater()",
  },
  '@openpanel/sdk, @openpanel/web': {
    vendor: 'openpanel',
    script: '',
    setup: "const { OpenPanel } = await import('/@openpanel/web/dist/index.js')",
    act: "await sdk.identify({ profileId: 'u1' }); await sdk.track('checked', {})",
  },
}
/** of SDKs that do not run in pages, or that always use TLS there */
const ELSEWHERE = ['node', 'Node', 'rudder-sdk-node', 'mixpanel', 'amplitude-js 8']

/** A site with a different origin from the service's, with the SDKs' own bundles. */
async function startSite(t: Test): Promise<string> {
  const server = createServer(async ({ url = '/' }, response) => {
    const path = url.split('?', 1)[0] ?? ''
    const isScript = path.endsWith('.js')
    const html = `<!doctype html><title>A page</title><body>
      <script type="importmap">{"imports":{"@openpanel/sdk":"/@openpanel/sdk/dist/index.js"}}</script>
      <script>function throwLater() { setTimeout(() => { throw new Error('of the page') }) }</script>`
    const body = isScript ? await readFile(new URL(path.slice(1), MODULES)).catch(() => null) : html
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

/** Lets pages reach these origins only. @returns the URLs of all others that they asked for */
async function closeOff(context: BrowserContext, origins: string[]): Promise<string[]> {
  const others: string[] = []
  const isOwn = (url: string) => /^(?:data|blob|about):/.test(url) || origins.includes(new URL(url).origin)
  context.on('request', (request) => {
    if (!isOwn(request.url())) others.push(request.url())
  })
  await context.route(
    (url) => !isOwn(url.href),
    (route) => route.abort(),
  )
  return others
}

t.test('the manual has the lines that the command prints', async (t) => {
  const place = { url: 'https://HOST', host: 'HOST', protocol: 'https', key: 'KEY' }
  for (const [vendor, { sdks }] of Object.entries(VENDORS)) {
    const page = ['rudder', 'jitsu'].includes(vendor) ? 'segment' : vendor
    const manual = await readFile(`docs/vendors/${page}.md`, 'utf8')
    for (const [sdk, code] of Object.entries(sdks)) {
      t.ok(manual.includes(code(place)), `docs/vendors/${page}.md has the line of ${sdk}: ${code(place)}`)
      const isPage = sdk in PAGES
      t.ok(isPage || ELSEWHERE.some((part) => sdk.includes(part)), `${sdk} is tried in a page`)
    }
  }
})

t.test('a page with the printed line sends to no other host', async (t) => {
  const { client, keys, events } = await startSdkApp(t)
  const url = await client.app.listen({ port: 0, host: '127.0.0.1' })
  const { host } = new URL(url)
  const place = { url, host, protocol: 'http', key: keys.write }
  const site = await startSite(t)
  const context = await startChromium(t)
  await context.addInitScript(`
    for (const [name, value] of Object.entries({ userAgent: '${AGENT}', userAgentData: undefined, webdriver: false })) {
      Object.defineProperty(Navigator.prototype, name, { get: () => value })
    }`)
  const others = await closeOff(context, [url, site])

  const visit = async (name: string, { script, setup = '', act }: PageSdk, line: string, event: string) => {
    const page = await context.newPage()
    await page.goto(`${site}/${encodeURIComponent(name)}`)
    if (script) await page.addScriptTag({ url: `/${script}` })
    const code = act.replaceAll("'checked'", `'${event}'`)
    await page.evaluate(`(async () => { ${setup}\n const sdk = ${line}\n ${code} })()`)
    await until(`the event of ${name}`, async () => (await events(`&event=${encodeURIComponent(event)}`)).length > 0)
    // Includes what an SDK does when the page is left.
    await page.goto('about:blank')
    await page.close()
  }

  for (const [name, sdk] of Object.entries(PAGES)) {
    await t.test(name, async (t) => {
      const line = VENDORS[sdk.vendor]?.sdks[name]?.(place)
      t.ok(line)
      others.length = 0
      await visit(name, sdk, line ?? '', `checked by ${name}`)
      t.strictSame(others, [], 'no request to another host')
    })
  }

  await t.test('a request to another host would be noticed', async (t) => {
    const amplitude = PAGES['@amplitude/analytics-browser'] as PageSdk
    const careless = `amplitude.init('${keys.write}', { serverUrl: '${url}/amplitude/2/httpapi' })`
    others.length = 0
    await visit('careless', amplitude, careless, 'careless')
    t.match(others.join(' '), keys.write, 'the SDK asks Amplitude for its settings, with the key')
  })
})
