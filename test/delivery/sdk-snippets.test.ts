import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { startChromium } from '../browser/chromium.js'
import { temporaryFolder, until } from '../helper.js'
import { type SdkApp, startSdkApp } from '../routes/vendors/sdk-app.js'

/** The start of PostHog's snippet, which is in pages unchanged; it loads `api_host` + `/static/array.js`. */
const POSTHOG_SNIPPET = `
!function(t,e){var o,n,p,r;e.__SV||(window.posthog=e,e._i=[],e.init=function(i,s,a){function g(t,e){var o=e.split(".");
2==o.length&&(t=t[o[0]],e=o[1]),t[e]=function(){t.push([e].concat(Array.prototype.slice.call(arguments,0)))}}
(p=t.createElement("script")).type="text/javascript",p.crossOrigin="anonymous",p.async=!0,
p.src=s.api_host.replace(".i.posthog.com","-assets.i.posthog.com")+"/static/array.js",
(r=t.getElementsByTagName("script")[0]).parentNode.insertBefore(p,r);var u=e;for(void 0!==a?u=e[a]=[]:a="posthog",
u.people=u.people||[],u.toString=function(t){var e="posthog";return"posthog"!==a&&(e+="."+a),t||(e+=" (stub)"),e},
u.people.toString=function(){return u.toString(1)+".people (stub)"},
o="init capture register identify alias people.set people.set_once set_config reset get_distinct_id group".split(" "),
n=0;n<o.length;n++)g(u,o[n]);e._i.push([i,s,a])},e.__SV=1)}(document,window.posthog||[]);`
/** The same of Segment's; it loads `/analytics.js/v1/KEY/analytics.min.js` from the host that the page changed in it. */
const segmentSnippet = (key: string, cdn: string) => `
!function(){var i="analytics",analytics=window[i]=window[i]||[];analytics.invoked=!0;
analytics.methods=["identify","page","track","ready","alias","group"];analytics.factory=function(e){return function(){
var n=Array.prototype.slice.call(arguments);n.unshift(e);analytics.push(n);return analytics}};
for(var n=0;n<analytics.methods.length;n++){var key=analytics.methods[n];analytics[key]=analytics.factory(key)}
analytics.load=function(key,n){var t=document.createElement("script");t.type="text/javascript";t.async=!0;
t.src="${cdn}/analytics.js/v1/"+key+"/analytics.min.js";var r=document.getElementsByTagName("script")[0];
r.parentNode.insertBefore(t,r);analytics._loadOptions=n};analytics._writeKey="${key}";analytics._cdn="${cdn}";
analytics.SNIPPET_VERSION="5.2.1";analytics.load("${key}");analytics.page();analytics.track("by Segment's snippet")}();`

/** A site whose policy lets its pages run no script but their own and the service's, and evaluate none. */
async function startSite(t: Test, services: string[], scripts: Record<string, string>): Promise<string> {
  const policy = `default-src 'none'; script-src 'self' ${services.join(' ')}; connect-src ${services.join(' ')}`
  const server = createServer(({ url = '/' }, response) => {
    const script = scripts[url]
    const html = `<!doctype html><title>A page</title><body>
      ${url === '/jitsu' ? scripts.jitsu : url === '/jitsu-host' ? scripts.jitsuHost : `<script src="${url}.js"></script>`}`
    response.writeHead(200, {
      'content-type': script ? 'text/javascript' : 'text/html',
      'content-security-policy': policy,
    })
    response.end(script ?? html)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function start(t: Test, env: NodeJS.ProcessEnv): Promise<SdkApp & { url: string; site: string }> {
  const sdk = await startSdkApp(t, { VENDOR_HOSTS: 'jitsu.localhost=jitsu', ...env })
  const url = await sdk.client.app.listen({ port: 0, host: '127.0.0.1' })
  const { write } = sdk.keys
  const ofHost = url.replace('127.0.0.1', 'jitsu.localhost')
  const jitsu = (from: string) => `<script async src="${from}/p.js" data-write-key="x:${write}"></script>`
  const site = await startSite(t, [url, ofHost], {
    '/posthog.js': `${POSTHOG_SNIPPET}
      posthog.init('${write}', { api_host: '${url}/posthog' }); posthog.capture("by PostHog's snippet")`,
    '/segment.js': segmentSnippet(write, `${url}/segment`),
    jitsu: jitsu(`${url}/jitsu`),
    jitsuHost: jitsu(ofHost),
  })
  return { ...sdk, url, site }
}

const SPOOFED = `for (const [name, value] of Object.entries({ userAgent: 'Mozilla/5.0 Chrome/156.0.0.0', userAgentData: undefined, webdriver: false }))
  Object.defineProperty(Navigator.prototype, name, { get: () => value })`

t.test("the vendors' snippets capture an event", async (t) => {
  const { site, events } = await start(t, {})
  const context = await startChromium(t)
  await context.addInitScript(SPOOFED)
  for (const [path, filter] of [
    ['/posthog', "by PostHog's snippet"],
    ['/segment', "by Segment's snippet"],
    ['/jitsu', 'page'],
    ['/jitsu-host', 'page'],
  ] as const) {
    await t.test(path, async (t) => {
      const before = (await events(`&event=${encodeURIComponent(filter)}`)).length
      const page = await context.newPage()
      const errors: string[] = []
      page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
      await page.goto(site + path)
      await until('the event', async () => (await events(`&event=${encodeURIComponent(filter)}`)).length > before)
      t.strictSame(errors, [], 'no script is missing, refused or evaluated')
      await page.close()
    })
  }
})

t.test('without the script, the console says what to do', async (t) => {
  const { site } = await start(t, { VENDOR_SCRIPTS: await temporaryFolder(t) })
  const context = await startChromium(t)
  for (const [path, name] of [
    ['/posthog', 'posthog-js'],
    ['/segment', '@segment/analytics-next'],
    ['/jitsu', '@jitsu/js'],
    ['/jitsu-host', '@jitsu/js'],
  ] as const) {
    const page = await context.newPage()
    const errors: string[] = []
    page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
    await page.goto(site + path)
    await until('the message', async () => errors.length > 0)
    t.match(errors, [`npm install ${name}`], path)
    await page.close()
  }
})
