import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Result } from 'axe-core'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import type { Test } from 'tap'
import type { AppOptions } from '../../src/app.js'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { type KeyKind, makeKey, storedKey } from '../../src/keys/keys.js'
import { insertKeys, revokeKeys } from '../../src/store/api-keys.js'
import { openStore } from '../../src/store/open.js'
import { startChromium } from '../browser/chromium.js'
import { type Client, SECRET_KEY, settingsFor, startApp, until, WAIT_LIMIT_MS } from '../helper.js'

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const WIDE = { width: 1280, height: 900 }
const NARROW = { width: 390, height: 844 }
/** Time zone of the browsers that `visit` opens. */
const ZONE = 'Europe/Berlin'
const LOCALE = 'en-GB'
const KEYS_REFRESH_MS = 200

export interface Site extends Client {
  /** without a trailing slash */
  url: string
  /** creates a key, and resolves once it is valid */
  addKey(kind: KeyKind, project?: string): Promise<string>
  /** revokes a key that `addKey` created */
  revokeKey(key: string): Promise<void>
  /**
   * opens a link such as `#/users` as a signed-in user in a clean context; closes it after the test
   * @param locale of the browser
   */
  visit(t: Test, link?: string, key?: string, locale?: string): Promise<Page>
  /** signs in through the form in a tab of a shared window, so that a newer tab hides it */
  visitInTab(link?: string, key?: string): Promise<Page>
}

/** Starts the service with embedded storage, and a browser. Serves the output of `npm run build`. */
export async function startSite(t: Test, env: NodeJS.ProcessEnv = {}, options: AppOptions = {}): Promise<Site> {
  let store = ''
  const client = await startApp(
    t,
    { ...(await settingsFor(t, 'embedded')), ...env },
    {
      keysRefreshMs: KEYS_REFRESH_MS,
      ...options,
      onClickHouse: (url) => {
        store = url
      },
    },
  )
  const url = await client.app.listen({ port: 0 })
  const window = await startChromium(t)
  const browser = window.browser()
  if (!browser) throw new Error('the browser is not connected')

  const stored = async (act: (clickhouse: ClickHouse) => Promise<void>) => {
    const { clickhouse, close } = await openStore({ ...client.config, CLICKHOUSE_URL: store })
    await act(clickhouse)
    await close()
  }
  const waitForStatus = (key: string, status: number) =>
    until('the key', async () => {
      const response = await client.call('GET', '/public/users', undefined, { 'x-api-key': key })
      // A write key is known once it is refused with 403.
      return response.statusCode === status || (status === 200 && response.statusCode === 403)
    })
  const addKey: Site['addKey'] = async (kind, projectId = 'default') => {
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
  const open = async (context: BrowserContext, link: string) => {
    const page = await context.newPage()
    page.setDefaultTimeout(WAIT_LIMIT_MS)
    watch(t, page, url)
    await page.goto(`${url}/${link}`)
    return page
  }
  const waitForViews = (page: Page) => page.getByRole('navigation', { name: 'Views' }).waitFor()
  const windows = new Windows(browser, url)
  const visit: Site['visit'] = async (t, link = '#/', key = SECRET_KEY, locale = LOCALE) => {
    const window = await windows.open(locale)
    const { headers } = await client.call('POST', '/session', {}, { 'x-api-key': key })
    const [name = '', value = ''] = String(headers['set-cookie']).split(/[=;]/)
    await window.addCookies([{ name, value, url, httpOnly: true, sameSite: 'Strict' }])
    const page = await open(window, link)
    page.once('close', () => windows.release(window, locale))
    t.teardown(() => page.close())
    await waitForViews(page)
    return page
  }
  const visitInTab: Site['visitInTab'] = async (link = '#/', key = SECRET_KEY) => {
    await window.clearCookies()
    const page = await open(window, link)
    await page.getByLabel('Key of the project').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await waitForViews(page)
    return page
  }
  return { ...client, url, addKey, revokeKey, visit, visitInTab }
}

/** Reuses browser contexts, because opening one takes a second of CPU time, five times as much as a tab. */
class Windows {
  readonly #browser: Browser
  /** origin of the site */
  readonly #origin: string
  readonly #free: { window: BrowserContext; locale: string }[] = []

  constructor(browser: Browser, origin: string) {
    this.#browser = browser
    this.#origin = origin
  }

  /** A context without state of earlier tests. */
  async open(locale: string): Promise<BrowserContext> {
    const place = this.#free.findIndex((free) => free.locale === locale)
    const [free] = place < 0 ? [] : this.#free.splice(place, 1)
    if (free) return await this.#forget(free.window)
    const window = await this.#browser.newContext({ viewport: WIDE, locale, timezoneId: ZONE })
    // A context closes with its last tab.
    await window.newPage()
    return window
  }

  release(window: BrowserContext, locale: string): void {
    if (window.pages().length === 1) this.#free.push({ window, locale })
  }

  async #forget(window: BrowserContext): Promise<BrowserContext> {
    const [tab] = window.pages()
    if (!tab) throw new Error('the window was closed')
    await window.clearCookies()
    await window.clearPermissions()
    const session = await window.newCDPSession(tab)
    await session.send('Storage.clearDataForOrigin', { origin: this.#origin, storageTypes: 'all' })
    await session.detach()
    return window
  }
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

/**
 * Checks the page with axe-core in light and dark mode, and that it fits a phone. Colours do not depend on the
 * width, so two of the four combinations suffice.
 */
export async function checkAccessibility(t: Test, page: Page, what: string): Promise<void> {
  const looks = [
    { colorScheme: 'light', viewport: WIDE },
    { colorScheme: 'dark', viewport: NARROW },
  ] as const
  for (const { colorScheme, viewport } of looks) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize(viewport)
    t.strictSame(await findViolations(page), [], `${what}, ${colorScheme}, ${viewport.width} px wide`)
  }
  const overhang = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  t.equal(overhang, 0, `${what} does not scroll to the side at ${NARROW.width} px`)
  await page.emulateMedia({ colorScheme: null })
  await page.setViewportSize(WIDE)
}

/** Serious and critical violations that axe-core finds. */
async function findViolations(page: Page): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(await readFile(AXE, 'utf8'))
  const violations = await page.evaluate<Result[]>("axe.run({ resultTypes: ['violations'] }).then((r) => r.violations)")
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`))
}
