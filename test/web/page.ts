import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Result } from 'axe-core'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import root, { type Test } from 'tap'
import type { AppOptions } from '../../src/app.js'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { type KeyKind, makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys, revokeKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { startChromium, startShell } from '../browser/chromium.js'
import { type Client, settingsFor, startApp, until, WAIT_LIMIT_MS } from '../helper.js'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
/** Rules of axe-core about colours, and about what is hidden or moved on a narrow screen. */
const LOOK_RULES = [
  'aria-hidden-focus',
  'button-name',
  'color-contrast',
  'label',
  'link-in-text-block',
  'link-name',
  'scrollable-region-focusable',
  'select-name',
]
/** With a modal dialog, only that, as nothing behind it can be reached: the page is checked without it. */
const SCOPE = `[...document.querySelectorAll('dialog:modal')].at(-1) ?? document`
const WIDE = { width: 1280, height: 900 }
const NARROW = { width: 390, height: 844 }
/** Time zone of the browsers that `visit` opens. */
const ZONE = 'Europe/Berlin'
const LOCALE = 'en-GB'
const LIVE_CHECK_MS = 100

export interface Site extends Omit<Client, 'browser' | 'events'> {
  /** without a trailing slash */
  url: string
  /** the site's own project, which is empty at first */
  project: string
  /** a secret key of the project, with which `call` and `visit` are made */
  key: string
  /** creates a key, and resolves once it is valid; no two sites have the same project */
  addKey(kind: KeyKind, project?: string): Promise<string>
  /** revokes a key that `addKey` created */
  revokeKey(key: string): Promise<void>
  /**
   * opens a link such as `#/users` as a signed-in user in a clean context; closes it after the test
   * @param locale of the browser
   */
  visit(t: Test, link?: string, key?: string, locale?: string): Promise<Page>
  /** signs in through the form in a tab of a shared window, so that a newer tab hides it; closes it after the test */
  visitInTab(t: Test, link?: string, key?: string): Promise<Page>
}

/** A service, and the projects of its sites. */
interface Host extends Client {
  url: string
  /** where its ClickHouse is */
  store: string
  owners: Map<string, object>
}

/** Starting a service or a browser takes seconds of CPU time, so the tests of one process share them. */
let commonHost: Promise<Host> | undefined
let commonTabs: Promise<BrowserContext> | undefined
let commonWindows: Promise<Windows> | undefined

/**
 * Makes a site with a project of its own. With neither settings nor options it shares its service. Serves the output of
 * `npm run build`.
 */
export async function startSite(t: Test, env?: NodeJS.ProcessEnv, options?: AppOptions): Promise<Site> {
  commonHost ??= env || options ? undefined : startHost(root)
  const host = await (env || options ? startHost(t, env, options) : commonHost)
  if (!host) throw new Error('there is no service')
  const { url, owners } = host
  const stored = async (act: (clickhouse: ClickHouse) => Promise<void>) => {
    const { clickhouse, close } = await openStore({ ...host.config, CLICKHOUSE_URL: host.store })
    await act(clickhouse)
    await close()
  }
  const waitForStatus = (key: string, status: number) =>
    until('the key', async () => {
      const response = await host.call('GET', '/public/project', undefined, { 'x-api-key': key })
      // A write key is known as soon as it is refused with 403.
      return response.statusCode === status || (status === 200 && response.statusCode === 403)
    })
  const owner = {}
  const project = `site-${owners.size + 1}`
  const addKey: Site['addKey'] = async (kind, projectId = project) => {
    if ((owners.get(projectId) ?? owner) !== owner) throw new Error(`Another test has the project ${projectId}.`)
    owners.set(projectId, owner)
    const key = makeKey(kind)
    await stored((clickhouse) => insertKeys(clickhouse, [storedKey(key, { projectId, kind })], Date.now()))
    await waitForStatus(key, 200)
    return key
  }
  const revokeKey: Site['revokeKey'] = async (key) => {
    // The hash identifies the key; the other fields do not matter.
    await stored((clickhouse) => revokeKeys(clickhouse, [storedKey(key, { projectId: '', kind: 'read' })]))
    await waitForStatus(key, 401)
  }
  const own = await addKey('secret')
  const waitForViews = (page: Page) => page.getByRole('navigation', { name: 'Views' }).waitFor()
  const visit: Site['visit'] = async (t, link = '#/', key = own, locale = LOCALE) => {
    const page = await openWindow(t, url, locale)
    const window = page.context()
    const { headers } = await host.call('POST', '/session', {}, { 'x-api-key': key })
    const [name = '', value = ''] = String(headers['set-cookie']).split(/[=;]/)
    await window.addCookies([{ name, value, url, httpOnly: true, sameSite: 'Strict' }])
    watch(t, page, url)
    await page.goto(`${url}/${link}`)
    await waitForViews(page)
    return page
  }
  const visitInTab: Site['visitInTab'] = async (t, link = '#/', key = own) => {
    const tabs = await useTabs()
    await tabs.clearCookies()
    const page = await openPage(t, tabs)
    watch(t, page, url)
    await page.goto(`${url}/${link}`)
    await page.getByLabel('Key of the project').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await waitForViews(page)
    return page
  }
  const call: Site['call'] = (method, path, body, headers) =>
    host.call(method, path, body, { 'x-api-key': own, ...headers })
  return { app: host.app, config: host.config, call, url, project, key: own, addKey, revokeKey, visit, visitInTab }
}

/** Starts the service with embedded storage. */
async function startHost(t: Test, env: NodeJS.ProcessEnv = {}, options: AppOptions = {}): Promise<Host> {
  let store = ''
  const client = await startApp(
    t,
    { ...(await settingsFor(t, 'embedded')), FACTS: 'off', ...env },
    {
      liveLimits: { checkMs: LIVE_CHECK_MS },
      ...options,
      onClickHouse: (url) => {
        store = url
      },
    },
  )
  return { ...client, url: await client.app.listen({ port: 0 }), store, owners: new Map() }
}

/** A window whose tabs hide each other. */
function useTabs() {
  commonTabs ??= startChromium(root)
  return commonTabs
}

/** Windows that never hide each other, of the browser that takes the least CPU time. */
function useWindows() {
  commonWindows ??= (startShell(root) ?? useTabs()).then((context) => {
    const browser = context.browser()
    if (!browser) throw new Error('the browser is not connected')
    return new Windows(browser)
  })
  return commonWindows
}

/**
 * Opens a clean window, signed out; closes it after the test.
 * @param origin of the site that is to be opened
 */
export async function openWindow(t: Test, origin: string, locale = LOCALE): Promise<Page> {
  const windows = await useWindows()
  const window = await windows.open(locale, origin)
  const page = await openPage(t, window)
  page.once('close', () => windows.release(window, locale))
  return page
}

/** Windows with their own clocks, which they keep. */
const withOwnClock = new WeakSet<BrowserContext>()

/** Lets the test set the clock of a page, whose window is not reused. */
export async function installClock(page: Page): Promise<void> {
  withOwnClock.add(page.context())
  await page.clock.install()
}

async function openPage(t: Test, window: BrowserContext): Promise<Page> {
  const page = await window.newPage()
  page.setDefaultTimeout(WAIT_LIMIT_MS)
  t.teardown(async () => {
    // A request that a test intercepts may still be under way; a test may have closed the page itself.
    if (!page.isClosed()) await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.close()
  })
  return page
}

/** Reuses browser contexts, because opening one takes a second of CPU time, five times as much as a tab. */
class Windows {
  readonly #browser: Browser
  readonly #free: { window: BrowserContext; locale: string }[] = []

  constructor(browser: Browser) {
    this.#browser = browser
  }

  /**
   * A context without state of earlier tests.
   * @param origin of the site that is to be opened
   */
  async open(locale: string, origin: string): Promise<BrowserContext> {
    const place = this.#free.findIndex((free) => free.locale === locale)
    const [free] = place < 0 ? [] : this.#free.splice(place, 1)
    if (free) return await this.#forget(free.window, origin)
    const window = await this.#browser.newContext({ viewport: WIDE, locale, timezoneId: ZONE, reducedMotion: 'reduce' })
    // A context closes with its last tab.
    await window.newPage()
    return window
  }

  release(window: BrowserContext, locale: string): void {
    if (withOwnClock.has(window)) void window.close()
    else if (window.pages().length === 1) this.#free.push({ window, locale })
  }

  async #forget(window: BrowserContext, origin: string): Promise<BrowserContext> {
    const [tab] = window.pages()
    if (!tab) throw new Error('the window was closed')
    await window.clearCookies()
    await window.clearPermissions()
    await window.setOffline(false)
    const session = await window.newCDPSession(tab)
    await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' })
    await session.detach()
    return window
  }
}

/** The cell texts of each row of a table, read at once. A heading has none. */
export async function readCells(rows: Locator, kind: 'innerText' | 'textContent' = 'textContent'): Promise<string[][]> {
  return await rows.evaluateAll(
    (rows: { cells: Iterable<{ tagName: string; innerText: string; textContent: string }> }[], kind) =>
      rows.map(({ cells }) => [...cells].filter(({ tagName }) => tagName === 'TD').map((cell) => cell[kind])),
    kind,
  )
}

/** Downloads a file with a button, and returns its text. */
export async function download(page: Page, button: string | RegExp): Promise<string> {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: button }).click(),
  ])
  return await readFile(await download.path(), 'utf8')
}

/** Fails the test on page errors, violations of the Content-Security-Policy, dialogs and requests to other hosts. */
function watch(t: Test, page: Page, url: string): void {
  page.on('request', (request) => {
    const isOwn = request.url().startsWith(`${url}/`) || /^(?:data|blob):/.test(request.url())
    if (!isOwn) t.fail(`the page asks another host: ${request.url()}`)
  })
  page.on('dialog', async (dialog) => {
    t.fail(`something in the page says: ${dialog.message()}`)
    await dialog.dismiss()
  })
  page.on('pageerror', (error) => t.fail(`an error in the page: ${error.message}`))
  page.on('console', (message) => {
    if (message.type() !== 'error') return
    // Failed requests are reported by the page itself.
    if (
      /^Failed to load resource: (?:the server responded|net::ERR_(?:INTERNET_DISCONNECTED|CONNECTION_REFUSED))/.test(
        message.text(),
      )
    )
      return
    t.fail(`the console has: ${message.text()}`)
  })
}

/** Checks the page, or its modal dialog, with axe-core in light and dark mode, and that it fits a phone. */
export async function checkAccessibility(t: Test, page: Page, what: string): Promise<void> {
  const looks = [
    { colorScheme: 'light', viewport: WIDE, rules: undefined },
    // Nothing else depends on the colours or the width.
    { colorScheme: 'dark', viewport: NARROW, rules: LOOK_RULES },
  ] as const
  for (const { colorScheme, viewport, rules } of looks) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize(viewport)
    t.strictSame(await findViolations(page, rules), [], `${what}, ${colorScheme}, ${viewport.width} px wide`)
  }
  const overhang = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  t.equal(overhang, 0, `${what} does not scroll to the side at ${NARROW.width} px`)
  await page.emulateMedia({ colorScheme: null })
  await page.setViewportSize(WIDE)
}

/**
 * Serious and critical violations that axe-core finds.
 * @param rules only these
 */
async function findViolations(page: Page, rules?: readonly string[]): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe)
  // It checks every element for violations that are moderate at most.
  const left = { rules: { region: { enabled: false } } }
  const options = { resultTypes: ['violations'], preload: false, ...(rules ? { runOnly: rules } : left) }
  // Passed rules would be thousands of lines.
  const violations = await page.evaluate<Result[]>(
    `axe.run(${SCOPE}, ${JSON.stringify(options)}).then((r) => r.violations.filter((v) => /serious|critical/.test(v.impact)))`,
  )
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
  )
}
