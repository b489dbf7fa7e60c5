import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type OutgoingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { Session } from '../../src/client/index.js'
import { type Client, freePort, type StoredEvent, settingsFor, startApp, until } from '../helper.js'
import { openAlone, startChromium } from './chromium.js'

const PACKAGE = new URL('../../packages/browser/dist/esm/browser/', import.meta.url)
const MINUTE_MS = 60_000
const HEARTBEAT_MS = 15_000

/** As in docs/web.md. */
const STUB = `window.tallyhouse = window.tallyhouse || new Proxy({ q: [] }, {
  get: ({ q }, name) => name === 'q' ? q : (...args) => { q.push([name, args]) },
})`

interface Served {
  /** the response waits for it */
  after?: () => Promise<unknown>
  type?: string
  headers?: OutgoingHttpHeaders
  text: string
}

interface SiteOptions {
  /** of the script's element */
  attributes?: string
  /** the page's content before the script and after it */
  head?: string
  body?: string
  /** further sources of the pages' Content-Security-Policy */
  policy?: Record<string, string>
  files?: Record<string, Served>
}

interface Service {
  client: Client
  url: string
  key: string
  /**
   * how many calls it has answered: asking it for events is the most expensive step, so tests ask only after another
   * call
   */
  answered(): number
}

/** The service with a write key, on a port. */
async function startTracked(t: Test, env: NodeJS.ProcessEnv): Promise<Service> {
  const client = await startApp(t, env)
  let answers = 0
  client.app.server.on('request', (_request, response) => response.once('close', () => answers++))
  const url = await client.app.listen({ port: Number(env.PORT) })
  const { apiKey } = (await client.call('POST', '/public/keys', { kind: 'write' })).json()
  return { client, url, key: apiKey, answered: () => answers }
}

let sites = 0

/**
 * A site of its own origin, so that tests share nothing in the browser. Its pages may load and call only what the
 * script needs according to docs/web.md.
 */
async function startSite(t: Test, { client, url, key, answered }: Service, options: SiteOptions = {}) {
  const { attributes = '', head = '', body = '', policy = {}, files = {} } = options
  const html = `<!doctype html><title>A page</title>${head}
    <script defer src="${url}/t.js" data-key="${key}" ${attributes}></script><a id="next" href="/next">next</a>${body}`
  const directives: Record<string, string> = {
    'default-src': "'none'",
    'script-src': `${url} 'self' ${policy['script-src'] ?? ''}`,
    'connect-src': `${url} ${policy['connect-src'] ?? ''}`,
    'require-trusted-types-for': "'script'",
    ...(policy.sandbox && { sandbox: policy.sandbox }),
  }
  const csp = Object.entries(directives)
    .map(([name, sources]) => `${name} ${sources}`)
    .join('; ')
  const requests: { url: string; headers: NodeJS.Dict<string | string[]> }[] = []
  const server = createServer(async (request, response) => {
    requests.push({ url: request.url ?? '', headers: request.headers })
    const file = files[request.url ?? '']
    const { type = 'text/html', headers = { 'content-security-policy': csp }, text } = file ?? { text: html }
    await file?.after?.()
    response.writeHead(200, { 'content-type': type, ...headers }).end(text)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  // All tests share a browser: if the system reused a port, it would be the same site, with the same visitor.
  const origin = `http://site-${++sites}.localhost:${port}`

  /** The events of the site's visitors, and of other names, in the order in which they happened, and how many are pending. */
  const readEvents = async (...others: string[]) => {
    const { events, pending }: { events: StoredEvent[]; pending: number } = (
      await client.call('GET', '/public/events?limit=1000')
    ).json()
    const isHere = ({ properties }: StoredEvent) => String(properties.url).startsWith(origin)
    const names = new Set([...events.filter(isHere).map(({ distinct_id }) => distinct_id), ...others])
    const found = events.filter((event) => names.has(event.distinct_id)).sort((a, b) => a.timestamp - b.timestamp)
    return { found, pending }
  }
  const findEvents = async (...others: string[]) => (await readEvents(...others)).found
  /** Page views by their paths, and other events by their names, once there are at least this many. */
  const waitForEvents = async (count: number, ...others: string[]) => {
    let seen = -1
    return await until(`${count} events`, async () => {
      const answers = answered()
      if (answers === seen) return false
      const { found, pending } = await readEvents(...others)
      // Pending events arrive without another call.
      if (pending === 0) seen = answers
      return found.length >= count && found
    })
  }
  const describe = (events: StoredEvent[]) =>
    events.map(({ event, properties: { url } }) => (event === '$pageview' ? String(url).slice(origin.length) : event))
  const waitFor = async (...expected: string[]) => {
    const events = await waitForEvents(expected.length)
    return { events, names: describe(events) }
  }
  const findSession = async (id: string | undefined): Promise<Session | undefined> =>
    (await client.call('GET', `/public/sessions/${id}`)).json().session
  /** The session, once it has the expected state. */
  const waitForSession = async (id: string | undefined, isSo: (session: Session) => boolean = () => true) =>
    await until('the session', async () => {
      const session = await findSession(id)
      return session && isSo(session) && session
    })
  return { origin, requests, findEvents, waitForEvents, waitFor, describe, waitForSession }
}

/** Unexpected messages in the consoles of pages. */
const found: string[] = []

/** Opens a page, and notes the problems in its console. */
async function openPage(t: Test, browser: BrowserContext, address: string, expected?: RegExp) {
  const page = await browser.newPage()
  const problems: string[] = []
  const calls: { url: string; body: string }[] = []
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
  page.on('request', (request) => {
    const url = request.url()
    if (request.method() === 'POST') calls.push({ url, body: request.postData() ?? '' })
  })
  t.teardown(() => {
    closePage(page)
    for (const problem of problems) if (!expected?.test(problem)) found.push(`${t.name}: ${problem}`)
  })
  await page.goto(address)
  return { page, problems, calls }
}

/** Does not wait, because a page that was in the back/forward cache may never confirm that it is closed. */
function closePage(page: Page): void {
  page.close().catch(() => undefined)
}

/** Runs a script in the page, as its own code would. */
const run = <T>(page: Page, script: string) => page.evaluate<T>(script)

/** The page has the script. */
const waitForScript = (page: Page) =>
  until('the script', () => run<boolean>(page, "!!window.tallyhouse && 'sessionId' in tallyhouse"))

/** Puts another page in front of one. */
async function hide(t: Test, browser: BrowserContext, page: Page): Promise<void> {
  const other = await browser.newPage()
  t.teardown(() => closePage(other))
  await other.bringToFront()
  await until('the page to be out of sight', () => run<boolean>(page, 'document.hidden'))
}

// One storage is enough here: the calls are tested on each in test/routes/.
t.test('the script in a browser', async (t) => {
  const service = await startTracked(t, { ...(await settingsFor(t, 'embedded')), FACTS: 'off' })
  const { client } = service
  const browser = await startChromium(t)

  t.test('a load is a page view of a visit', async (t) => {
    const site = await startSite(t, service)
    const path = '/shop?utm_source=news&utm_medium=email&utm_campaign=may&utm_term=&size=4#top'
    const { page, calls } = await openPage(t, browser, site.origin + path)
    const { events } = await site.waitFor('/shop')
    t.equal(events.length, 1)
    const [view] = events
    t.match(view, { event: '$pageview', insert_id: /^\d+-\d+-\d+$/, session_id: /^\d+-\d+-\d+$/ })
    t.strictSame(view?.properties, {
      url: `${site.origin}${path.replace('#top', '')}`,
      title: 'A page',
      utm_source: 'news',
      utm_medium: 'email',
      utm_campaign: 'may',
    })
    t.match(await site.waitForSession(view?.session_id), { distinct_id: view?.distinct_id, state: 'active' })
    t.equal(await run(page, 'tallyhouse.sessionId'), view?.session_id)
    t.equal(await run(page, 'tallyhouse.distinctId'), view?.distinct_id)
    const zone = await run<string>(page, 'Intl.DateTimeFormat().resolvedOptions().timeZone')
    t.ok(calls.length >= 2)
    for (const { url } of calls) t.equal(new URL(url).search, `?timezone=${encodeURIComponent(zone)}`)

    await page.click('#next')
    const later = await site.waitForEvents(2)
    t.match(later[1], { distinct_id: view?.distinct_id, session_id: view?.session_id })
    t.strictSame(later[1]?.properties, {
      url: `${site.origin}/next`,
      title: 'A page',
      referrer: `${site.origin}${path.replace('#top', '')}`,
    })
  })

  t.test('routes of a single page are page views', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, `${site.origin}/`)
    await site.waitFor('/')
    await run(
      page,
      "history.pushState(null, '', '/redirecting'), history.pushState(null, '', '/one?a'), (document.title = 'One')",
    )
    t.strictSame((await site.waitFor('/', '/one')).names, ['/', '/one?a'])
    await run(page, "history.replaceState(null, '', '?b'), history.pushState(null, '', '#part')")
    await run(page, "history.pushState(null, '', '/two'), tallyhouse.track('after')")
    await site.waitForEvents(4)
    await run(page, 'history.go(-2)')
    const events = await site.waitForEvents(5)
    t.strictSame(site.describe(events), ['/', '/one?a', '/two', 'after', '/one?b'])
    t.strictSame(events[1]?.properties, { url: `${site.origin}/one?a`, title: 'One', referrer: `${site.origin}/` })
    t.equal(new Set(events.map(({ session_id }) => session_id)).size, 1)

    await run(page, "navigation.addEventListener('navigate', (event) => event.intercept())")
    await run(page, "navigation.navigate('/three').finished.then(() => new Promise((done) => setTimeout(done, 500)))")
    await run(page, "navigation.navigate('/four').finished.then(() => true)")
    t.strictSame(site.describe(await site.waitForEvents(7)).slice(5), ['/three', '/four'])

    const hashes = await startSite(t, service, { attributes: 'data-hash' })
    const { page: other } = await openPage(t, browser, `${hashes.origin}/#/a`)
    await hashes.waitFor('/#/a')
    await run(other, "location.hash = '/b'")
    t.strictSame((await hashes.waitFor('/#/a', '/#/b')).names, ['/#/a', '/#/b'])
  })

  t.test('a page that returns from the back/forward cache counts as a new view', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, `${site.origin}/one`)
    await waitForScript(page)
    await run(page, "addEventListener('pageshow', ({ persisted }) => persisted && tallyhouse.track('from the cache'))")
    await page.click('#next')
    await site.waitFor('/one', '/next')
    // Playwright loses a page that returns from the cache, and perhaps the result of the script with it.
    run(page, 'history.back()').catch(() => undefined)
    const { names } = await site.waitFor('/one', '/next', '/one', 'from the cache')
    t.strictSame(names, ['/one', '/next', '/one', 'from the cache'])
  })

  t.test('a prerendered page counts as viewed once it is shown', async (t) => {
    const drive = `addEventListener('load', async () => {
      if (document.prerendering) {
        tallyhouse.track('prepared')
        await fetch('/prerendered')
      } else if (location.pathname === '/first') {
        await fetch('/wait')
        tallyhouse.track('leaving')
        await fetch('/stored')
        location.href = '/next'
      }
    })`
    const rules = { prerender: [{ urls: ['/next'], eagerness: 'immediate' }] }
    const isPrerendered = () => until('the other page', () => site.requests.some(({ url }) => url === '/prerendered'))
    const site = await startSite(t, service, {
      head: '<script src="/drive.js"></script>',
      body: `<script type="speculationrules">${JSON.stringify(rules)}</script>`,
      policy: { 'connect-src': "'self'", 'script-src': "'inline-speculation-rules'" },
      files: {
        '/drive.js': { type: 'text/javascript', text: drive },
        '/wait': { text: '', after: isPrerendered },
        '/stored': { text: '', after: () => site.waitForEvents(2) },
      },
    })
    await openAlone(t, `${site.origin}/first`)
    const { names, events } = await site.waitFor('/first', 'leaving', '/next', 'prepared')
    t.strictSame(names, ['/first', 'leaving', '/next', 'prepared'])
    const loads = site.requests.filter(({ url, headers }) => url === '/next' && headers['sec-purpose'] === undefined)
    t.strictSame(loads, [], 'the page that was shown is the prerendered one')
    t.equal(new Set(events.map(({ session_id }) => session_id)).size, 1)
  })

  t.test('a page that returns from the back/forward cache after a reset belongs to the new visitor', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, `${site.origin}/one`)
    await site.waitFor('/one')
    await run(page, "tallyhouse.identify('left')")
    await run(page, "addEventListener('pageshow', ({ persisted }) => persisted && tallyhouse.track('from the cache'))")
    await page.click('#next')
    await site.waitForEvents(2, 'left')
    await waitForScript(page)
    await run(page, "tallyhouse.reset(), tallyhouse.track('signed out')")
    await site.waitForEvents(4, 'left')
    run(page, 'history.back()').catch(() => undefined)
    const isBack = (events: StoredEvent[]) => events.some(({ event }) => event === 'from the cache') && events
    const events = await until('the event', async () => isBack(await site.findEvents('left')))
    t.strictSame(site.describe(events), ['/one', '/next', '/next', 'signed out', '/one', 'from the cache'])
    const visits = events.map(({ session_id, distinct_id }) => `${session_id} ${distinct_id}`)
    t.equal(new Set(visits.slice(2)).size, 1, 'one visit of the new visitor')
    for (const visit of visits.slice(0, 2)) t.notOk(visits.slice(2).includes(visit))
    t.not(events[5]?.distinct_id, events[0]?.distinct_id)
    t.not(events[5]?.session_id, events[0]?.session_id)
  })

  t.test('several tabs are one visit, and a background tab counts as viewed once it is visible', async (t) => {
    const site = await startSite(t, service)
    const { page: first } = await openPage(t, browser, `${site.origin}/first`)
    await site.waitFor('/first')
    const devTools = await browser.browser()?.newBrowserCDPSession()
    const [second] = await Promise.all([
      browser.waitForEvent('page'),
      // Playwright announces a page with another address once it sees its navigation, which it may miss.
      devTools?.send('Target.createTarget', { url: 'about:blank', background: true }),
    ])
    t.teardown(() => closePage(second))
    await second.goto(`${site.origin}/next`)
    await waitForScript(second)
    await run(second, "tallyhouse.track('in the background')")
    await run(first, "tallyhouse.track('in front')")
    t.strictSame((await site.waitFor('/first', 'in front')).names, ['/first', 'in front'])
    await second.bringToFront()
    const { events, names } = await site.waitFor('/first', 'in front', '/next', 'in the background')
    t.strictSame(names, ['/first', 'in front', '/next', 'in the background'])
    t.equal(new Set(events.map(({ session_id, distinct_id }) => `${session_id} ${distinct_id}`)).size, 1)
  })

  t.test('a visit ends after 30 minutes out of sight, and its time out of sight does not count', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, 'about:blank')
    await page.clock.install()
    await page.goto(`${site.origin}/read`)
    const [first] = (await site.waitFor('/read')).events
    await page.clock.fastForward(MINUTE_MS)
    await site.waitForSession(first?.session_id, ({ duration }) => duration >= 60)
    await hide(t, browser, page)
    await page.clock.fastForward(20 * MINUTE_MS)
    await page.bringToFront()
    await until('the page to be in sight', () => run<boolean>(page, '!document.hidden'))
    t.equal(await run(page, 'tallyhouse.sessionId'), first?.session_id, 'it continues after 20 minutes')
    const { duration } = await site.waitForSession(first?.session_id, ({ duration }) => duration >= 21 * 60)

    await hide(t, browser, page)
    await page.clock.fastForward(31 * MINUTE_MS)
    await run(page, "tallyhouse.track('at work in the background')")
    const background = await site.waitForEvents(2)
    t.equal(background[1]?.session_id, undefined, 'nobody was there')
    await page.bringToFront()
    const { names, events } = await site.waitFor('/read', 'at work in the background', '/read')
    t.strictSame(names, ['/read', 'at work in the background', '/read'])
    const [, , second] = events
    t.not(second?.session_id, first?.session_id)
    t.equal(second?.distinct_id, first?.distinct_id)
    t.equal(
      second?.properties.referrer,
      `${site.origin}/read`,
      'the source of the first visit is not that of the second',
    )
    await site.waitForSession(second?.session_id)
    const ended = await site.waitForSession(first?.session_id)
    t.ok(ended.duration < duration + 30 * 60, `${ended.duration} s`)
  })

  t.test('events of a closing page are sent, and the visit has its full length', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, 'about:blank')
    await page.clock.install()
    await page.goto(`${site.origin}/closing`)
    const [view] = (await site.waitFor('/closing')).events
    await run(page, "addEventListener('pagehide', () => tallyhouse.track('closed'))")
    await page.clock.fastForward(HEARTBEAT_MS - 2000)
    await page.close()
    const { events } = await site.waitFor('/closing', 'closed')
    t.equal(events[1]?.session_id, view?.session_id)
    await site.waitForSession(view?.session_id, ({ duration }) => duration >= 13)

    const { page: next } = await openPage(t, browser, 'about:blank')
    await next.clock.install({ time: Date.now() + MINUTE_MS })
    await next.goto(`${site.origin}/again`)
    await site.waitFor('/closing', 'closed', '/again')
    await next.clock.fastForward(HEARTBEAT_MS)
    // The next page sends the event again, unless the closing one still saw the answer.
    await until('nothing to repeat', async () => (await waitingOf(next)).length === 0)
    await run(next, "tallyhouse.track('last')")
    const { names } = await site.waitFor('/closing', 'closed', '/again', 'last')
    t.strictSame(names.toSorted(), ['/again', '/closing', 'closed', 'last'])
    await until('an empty outbox', async () => (await waitingOf(next)).length === 0)
  })

  t.test('an hour without a network loses nothing and changes no time', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, 'about:blank', /ERR_INTERNET_DISCONNECTED/)
    const began = Date.now()
    const start = began - 61 * MINUTE_MS
    await page.clock.install({ time: start })
    await page.goto(`${site.origin}/offline`)
    await site.waitFor('/offline')
    const network = await browser.newCDPSession(page)
    const setOffline = (offline: boolean) =>
      network.send('Network.emulateNetworkConditions', {
        offline,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput: -1,
      })
    await network.send('Network.enable')
    await setOffline(true)
    const minutes = [0, 10, 20, 30, 40, 50]
    for (const minute of minutes) {
      await run(page, `tallyhouse.track('minute ${minute}', { x: 'x'.repeat(5000) })`)
      await page.clock.fastForward(10 * MINUTE_MS)
    }
    t.equal((await waitingOf(page)).length, minutes.length)
    await setOffline(false)
    await page.clock.fastForward(HEARTBEAT_MS)
    const events = (await site.waitForEvents(1 + minutes.length)).filter(({ event }) => event !== '$pageview')
    t.strictSame(
      events.map(({ event }) => event),
      minutes.map((minute) => `minute ${minute}`),
    )
    for (const [index, { timestamp }] of events.entries()) {
      const late = timestamp - start - 10 * MINUTE_MS * index
      t.ok(late >= 0 && late <= Date.now() - began, `${late} ms late`)
    }
    await until('an empty outbox', async () => (await waitingOf(page)).length === 0)
  })

  t.test('a page works without storage, and with a storage that is full', async (t) => {
    const sandbox = await startSite(t, service, { policy: { sandbox: 'allow-scripts' } })
    const { page } = await openPage(t, browser, `${sandbox.origin}/sandbox`)
    await waitForScript(page)
    await run(page, "tallyhouse.track('works'), tallyhouse.identify('sam')")
    t.strictSame((await sandbox.waitFor('/sandbox', 'works')).names, ['/sandbox', 'works'])

    const full = await startSite(t, service)
    const { page: crowded } = await openPage(t, browser, `${full.origin}/full`)
    await full.waitFor('/full')
    await run(crowded, "for (let n = 5e6; n >= 1; n /= 2) try { localStorage[n] = 'x'.repeat(n) } catch {}")
    await run(crowded, "tallyhouse.track('works')")
    t.strictSame((await full.waitFor('/full', 'works')).names, ['/full', 'works'])
    await run(crowded, 'tallyhouse.optOut()')
    t.strictSame(await keptBy(crowded), ['tallyhouse choice'])

    const damaged = await startSite(t, service)
    const { page: old } = await openPage(t, browser, 'about:blank')
    await old.addInitScript(`
      const fail = () => { throw new Error('NS_ERROR_FILE_CORRUPTED') }
      Object.defineProperty(window, 'localStorage', { get: () => new Proxy({}, { get: fail, set: fail }) })
      delete AbortSignal.timeout
      navigation = []`)
    await old.goto(`${damaged.origin}/old`)
    await waitForScript(old)
    await run(old, "tallyhouse.track('works')")
    t.strictSame((await damaged.waitFor('/old', 'works')).names, ['/old', 'works'])
  })

  t.test('nothing is stored or sent before the visitor agrees, or after the visitor objects', async (t) => {
    const site = await startSite(t, service, { attributes: 'data-consent="required"' })
    const { page, calls } = await openPage(t, browser, `${site.origin}/asked`)
    await waitForScript(page)
    await run(page, "tallyhouse.track('before'), tallyhouse.identify('carol')")
    t.strictSame(await run(page, '[tallyhouse.distinctId ?? null, tallyhouse.sessionId ?? null]'), [null, null])
    t.strictSame(await keptBy(page), [])
    t.strictSame(calls, [])
    await run(page, 'tallyhouse.optIn()')
    const agreed = await site.waitForEvents(2)
    t.strictSame(site.describe(agreed), ['/asked', 'before'])
    t.equal(await run(page, 'tallyhouse.distinctId'), 'carol')

    await page.click('#next')
    const events = await site.waitForEvents(3, 'carol')
    t.match(events[2], { distinct_id: 'carol', session_id: agreed[0]?.session_id }, 'the choice is remembered')
    await run(page, "tallyhouse.optOut(), tallyhouse.track('after')")
    t.strictSame(await keptBy(page), ['tallyhouse choice'])
    const before = calls.length
    await page.reload()
    await waitForScript(page)
    await run(page, "tallyhouse.track('after')")
    t.equal(calls.length, before)
    await run(page, 'tallyhouse.optIn()')
    const again = await site.waitForEvents(4, 'carol')
    t.strictSame(site.describe(again), ['/asked', 'before', '/next', '/next'])
    t.notOk(
      [...agreed, events[2]].some((event) => event?.distinct_id === again[3]?.distinct_id),
      'a new visitor',
    )
  })

  t.test('Global Privacy Control is an objection', async (t) => {
    const announce = "Object.defineProperty(Navigator.prototype, 'globalPrivacyControl', { get: () => true })"
    const open = async (attributes: string) => {
      const site = await startSite(t, service, { attributes })
      const { page, calls } = await openPage(t, browser, 'about:blank')
      await page.addInitScript(announce)
      await page.goto(`${site.origin}/page`)
      await waitForScript(page)
      return { site, page, calls }
    }
    const { site, page, calls } = await open('')
    await run(page, "tallyhouse.track('ignored')")
    t.strictSame([await keptBy(page), calls], [[], []])
    await run(page, 'tallyhouse.optIn()')
    await site.waitFor('/page', 'ignored')

    const indifferent = await open('data-respect-gpc="false"')
    await indifferent.site.waitFor('/page')
  })

  t.test('a daily visitor has no name, and nothing is stored', async (t) => {
    const site = await startSite(t, service, { attributes: 'data-visitor="daily"' })
    const { page, calls } = await openPage(t, browser, `${site.origin}/daily`)
    await waitForScript(page)
    await run(page, "tallyhouse.track('seen', { n: 1 }), tallyhouse.identify('dora')")
    await site.waitFor('/daily', 'seen')
    await page.click('#next')
    const { events, names } = await site.waitFor('/daily', 'seen', '/next')
    t.strictSame(names, ['/daily', 'seen', '/next'])
    t.equal(new Set(events.map(({ distinct_id }) => distinct_id)).size, 1)
    for (const { distinct_id, session_id } of events) {
      t.match(distinct_id, /^\$visitor:/)
      t.equal(session_id, undefined)
    }
    for (const { url } of calls) {
      t.equal(new URL(url).pathname, '/public/track/batch')
      t.equal(new URL(url).searchParams.get('visitor'), 'daily')
    }
    t.strictSame(await run(page, '[{ ...localStorage }, { ...sessionStorage }, document.cookie]'), [{}, {}, ''])
  })

  t.test('a site that begins to count daily visitors forgets its visitors', async (t) => {
    const script = `<script defer src="${service.url}/t.js" data-key="${service.key}" data-visitor="daily"></script>`
    const site = await startSite(t, service, { files: { '/next': { text: `<!doctype html>${script}` } } })
    const { page } = await openPage(t, browser, `${site.origin}/named`)
    await waitForScript(page)
    await run(page, "tallyhouse.optIn(), tallyhouse.identify('fay'), localStorage.setItem('theme', 'dark')")
    const [named] = await site.waitForEvents(1, 'fay')
    const known = ['tallyhouse choice', 'tallyhouse user', 'tallyhouse visit', 'tallyhouse visitor', 'theme']
    await until('an empty outbox', async () => (await waitingOf(page)).length === 0)
    t.strictSame((await keptBy(page)).toSorted(), known)
    await page.click('#next')
    const daily = (await site.waitForEvents(2, 'fay')).find(({ eventId }) => eventId !== named?.eventId)
    t.match(daily?.distinct_id, /^\$visitor:/)
    t.strictSame((await keptBy(page)).toSorted(), ['tallyhouse choice', 'theme'])
  })

  t.test('clicks on marked elements and on links', async (t) => {
    const body = `
      <button data-event="signed up" data-event-plan="pro" data-event-seats="3"><b id="inner">Sign up</b></button>
      <form data-event="searched" action="/found"><input id="field" name="q"></form>
      <label data-event="agreed"><b id="label">I agree</b> <input id="box" type="checkbox"></label>
      <a id="out" href="http://127.0.0.2:1/away?x">out</a>
      <a id="file" href="/report.PDF">file</a>
      <svg width="40" height="20"><a id="drawn" href="#drawn"><text y="15">drawn</text></a></svg>`
    const site = await startSite(t, service, { attributes: 'data-outbound data-downloads', body })
    const { page } = await openPage(t, browser, `${site.origin}/clicks`)
    await waitForScript(page)
    await page.click('#inner')
    await page.click('#field')
    await page.click('#label')
    await page.click('#box')
    await run(page, "addEventListener('click', (event) => event.preventDefault())")
    await page.click('#out')
    await page.click('#file')
    await page.click('#drawn')
    await page.click('#next')
    await run(
      page,
      `{
        const component = document.body.appendChild(document.createElement('div'))
        component.dataset.event = 'component'
        const link = component.attachShadow({ mode: 'open' }).appendChild(document.createElement('a'))
        link.href = 'http://127.0.0.3/'
        link.appendChild(document.createElement('b')).click()
      }`,
    )
    await page.fill('#field', 'shoes')
    await page.press('#field', 'Enter')
    const { events, names } = await site.waitFor(
      '/clicks',
      'signed up',
      'agreed',
      'agreed',
      '$outbound_link',
      '$download',
      'component',
      '$outbound_link',
      'searched',
      '/f',
    )
    const marked = ['component', '$outbound_link', 'searched']
    t.strictSame(names, [
      ...['/clicks', 'signed up', 'agreed', 'agreed', '$outbound_link', '$download'],
      ...[...marked, '/found?q=shoes'],
    ])
    t.strictSame(
      events.slice(1, 9).map(({ properties }) => properties),
      [
        { plan: 'pro', seats: '3' },
        {},
        {},
        { url: 'http://127.0.0.2:1/away?x' },
        { url: `${site.origin}/report.PDF` },
        {},
        { url: 'http://127.0.0.3/' },
        {},
      ],
    )

    const plain = await startSite(t, service, { body })
    const { page: other } = await openPage(t, browser, `${plain.origin}/plain`)
    await waitForScript(other)
    await run(other, "addEventListener('click', (event) => event.preventDefault())")
    await other.click('#out')
    await other.click('#file')
    await other.click('#inner')
    t.strictSame((await plain.waitFor('/plain', 'signed up')).names, ['/plain', 'signed up'])
  })

  t.test('identify names the visitor, and reset forgets the name', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, `${site.origin}/account`)
    const [view] = (await site.waitFor('/account')).events
    // A page without a user may pass any of these, and some templates turn them into strings.
    await run(page, "[undefined, null, {}, '', 0, 'undefined', 'null'].forEach((none) => tallyhouse.identify(none))")
    await run(page, "tallyhouse.identify('ann'), tallyhouse.track('signed in')")
    const events = await site.waitForEvents(2, 'ann')
    t.match(events[1], { event: 'signed in', distinct_id: 'ann', session_id: view?.session_id })
    const resolve = async (name: string | undefined) =>
      (await client.call('GET', `/public/users/${name}/aliases`)).json().distinct_id
    await until('the alias', async () => (await resolve(view?.distinct_id)) === 'ann')

    await page.click('#next')
    t.match((await site.waitForEvents(3, 'ann'))[2], { distinct_id: 'ann', session_id: view?.session_id })
    t.match(await site.waitForSession(view?.session_id), { distinct_id: view?.distinct_id })
    await waitForScript(page)
    await run(page, "tallyhouse.reset(), tallyhouse.track('signed out')")
    const after = await site.waitForEvents(5, 'ann')
    t.strictSame(site.describe(after).slice(3), ['/next', 'signed out'])
    for (const event of after.slice(3)) {
      t.notOk(['ann', view?.distinct_id].includes(event.distinct_id))
      t.not(event.session_id, view?.session_id)
    }

    await run(page, "tallyhouse.identify('bob')")
    await until('the alias', async () => (await resolve(after[4]?.distinct_id)) === 'bob')
    await run(page, "tallyhouse.identify('cid'), tallyhouse.track('another')")
    await site.waitForEvents(6, 'ann', 'cid')
    t.equal(await resolve('bob'), 'bob', 'two users of one browser stay separate')
  })

  t.test(
    'calls before the script has loaded are made afterwards, and loading the script twice has no effect',
    async (t) => {
      const early = `${STUB}
      tallyhouse.track('early', { n: 1 }); tallyhouse.identify('eve')`
      const head = '<script src="/stub.js"></script>'
      const again = `<script defer src="${service.url}/t.js" data-key="${service.key}"></script>`
      const files = { '/stub.js': { type: 'text/javascript', text: early } }
      const site = await startSite(t, service, { head, body: again, files })
      const { page } = await openPage(t, browser, `${site.origin}/early`)
      await site.waitFor('/early', 'early')
      await run(page, "tallyhouse.track('late')")
      const events = await site.waitForEvents(3, 'eve')
      t.strictSame(site.describe(events), ['/early', 'early', 'late'])
      t.match(events, [{}, { properties: { n: 1 } }, { distinct_id: 'eve' }])
    },
  )

  t.test('no event of a long task is lost, even if another one is refused', async (t) => {
    const site = await startSite(t, service)
    const { page } = await openPage(t, browser, `${site.origin}/long`, /Tallyhouse|400/)
    await site.waitFor('/long')
    const calls = "for (let i = 0; i < 560; i++) tallyhouse.track('event ' + i, { text: 'x'.repeat(50) })"
    await run(page, `tallyhouse.track('y'.repeat(300)); ${calls}`)
    const names = site.describe(await site.waitForEvents(561))
    t.equal(new Set(names).size, 561)
    t.strictSame(await waitingOf(page), [])
  })

  t.test('events of pages with another key wait for those, until they are too old', async (t) => {
    const site = await startSite(t, service)
    const { page, calls } = await openPage(t, browser, `${site.origin}/`)
    await site.waitFor('/')
    await run(
      page,
      `for (const [days, event] of [[1, 'kept'], [7, 'expired']]) {
        const name = 'tallyhouse wk_other event ' + (Date.now() - days * 86_400_000) + ' id'
        localStorage[name] = JSON.stringify({ event, distinct_id: 'ada', insert_id: event })
      }`,
    )
    await page.goto(`${site.origin}/next`)
    t.strictSame((await site.waitFor('/', '/next')).names, ['/', '/next'])
    await until('an outbox with the other', async () => (await waitingOf(page)).length === 1)
    t.match(await run(page, "Object.entries(localStorage).join('\\n')"), /wk_other event .*"kept"/)
    t.notMatch(calls.map(({ body }) => body).join(), /wk_other|kept|expired/)
  })

  t.test('a refused event does not affect the others', async (t) => {
    const site = await startSite(t, service)
    const { page, problems } = await openPage(t, browser, `${site.origin}/`, /Tallyhouse|40[04]/)
    await site.waitFor('/')
    await run(page, "tallyhouse.track('one'), tallyhouse.track('x'.repeat(300)), tallyhouse.track('two')")
    t.strictSame((await site.waitFor('/', 'one', 'two')).names, ['/', 'one', 'two'])
    await until('the explanation', () => problems.some((problem) => /event must/.test(problem)))
    await until('an empty outbox', async () => (await waitingOf(page)).length === 0)

    const headers = { 'access-control-allow-origin': '*' }
    await page.route('**/track/batch?*', (route) => route.fulfill({ status: 404, headers }), { times: 1 })
    await Promise.all([page.waitForResponse(/batch/), run(page, "tallyhouse.track('during an update')")])
    await run(page, "tallyhouse.track('after it')")
    const all = ['/', 'one', 'two', 'during an update', 'after it']
    t.strictSame((await site.waitFor(...all)).names, all)
  })

  t.test('a call that cannot be recorded is dropped, and the page continues to work', async (t) => {
    const site = await startSite(t, service, { attributes: 'data-consent="required"' })
    const { page } = await openPage(t, browser, `${site.origin}/odd`)
    const warnings: string[] = []
    page.on('console', (message) => message.type() === 'warning' && warnings.push(message.text()))
    await waitForScript(page)
    const calls = (name: string) => `{
      const circular = {}
      circular.self = circular
      tallyhouse.track('circular', circular)
      tallyhouse.track('large', { n: 1n })
      tallyhouse.identify(Symbol('who'))
      tallyhouse.track('${name}')
    }`
    await run(page, calls('before'))
    await run(page, 'tallyhouse.optIn()')
    await run(page, calls('after'))
    t.strictSame((await site.waitFor('/odd', 'before', 'after')).names, ['/odd', 'before', 'after'])
    await until('the reasons', () => warnings.length === 6)
    for (const warning of warnings) t.match(warning, /^Tallyhouse: TypeError/)
    await until('an empty outbox', async () => (await waitingOf(page)).length === 0)
  })

  t.test('a key that must not be in a page is refused', async (t) => {
    const site = await startSite(t, { ...service, key: 'sk_of_the_project' })
    const { problems } = await openPage(t, browser, `${site.origin}/`, /write key/)
    await until('the explanation', () => problems.some((problem) => /A page needs a write key/.test(problem)))
  })

  t.test('the package records the same events', async (t) => {
    const files: Record<string, Served> = {}
    for (const name of ['index', 'clicks', 'site-storage', 'outbox']) {
      files[`/${name}.js`] = { type: 'text/javascript', text: await readFile(new URL(`${name}.js`, PACKAGE), 'utf8') }
    }
    const { url, key } = service
    const text = `import { Tallyhouse } from './index.js'
      const tallyhouse = new Tallyhouse({ url: '${url}/', key: '${key}' })
      tallyhouse.track('bought', { price: 9.5 })`
    const page = '<!doctype html><title>A page</title><script type="module" src="/app.js"></script>'
    files['/app'] = { text: page }
    files['/app.js'] = { type: 'text/javascript', text }
    const site = await startSite(t, service, { files })
    await openPage(t, browser, `${site.origin}/app`)
    const { events, names } = await site.waitFor('/app', 'bought')
    t.strictSame(names, ['/app', 'bought'])
    t.strictSame(events[1]?.properties, { price: 9.5 })
  })
})

t.test('events during a restart of the service arrive once', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off', PORT: String(await freePort()) }
  const first = await startTracked(t, env)
  const browser = await startChromium(t)
  const files = { '/next': { text: '<!doctype html>' } }
  const site = await startSite(t, first, { files })
  const { page } = await openPage(t, browser, 'about:blank', /ERR_/)
  await page.clock.install()
  await page.goto(`${site.origin}/restart`)
  await site.waitFor('/restart')
  await first.client.app.close()
  await Promise.all([page.waitForEvent('requestfailed'), run(page, "tallyhouse.track('meanwhile')")])
  t.equal((await waitingOf(page)).length, 1)
  const second = await startApp(t, env)
  await second.app.listen({ port: Number(env.PORT) })
  await page.clock.fastForward(HEARTBEAT_MS)
  const count = async () => (await second.events()).filter(({ event }) => event === 'meanwhile').length
  await until('the event', async () => (await count()) > 0)
  await until('an empty outbox', async () => (await waitingOf(page)).length === 0)
  await run(page, "tallyhouse.track('then')")
  await until('the next event', async () => (await second.events()).some(({ event }) => event === 'then'))
  t.equal(await count(), 1)
})

t.test('no page has an error in its console', async (t) => t.strictSame(found, []))

/** The names that the script has stored in the browser. */
const keptBy = (page: Page) => run<string[]>(page, 'Object.keys(localStorage).filter((name) => !/^\\d/.test(name))')

/** The names of events that wait for the service. */
const waitingOf = async (page: Page) => (await keptBy(page)).filter((name) => / event | user /.test(name))
