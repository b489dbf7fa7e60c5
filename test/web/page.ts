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
import { type Client, SECRET_KEY, settingsFor, startApp, until } from '../helper.js'

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const WIDE = { width: 1280, height: 900 }
const NARROW = { width: 390, height: 844 }
/** Of the browsers that `visit` opens. */
const ZONE = 'Europe/Berlin'
const KEYS_REFRESH_MS = 200
/** As `until` has it. */
export const WAIT_LIMIT_MS = 90_000

export interface Site extends Client {
  /** without a slash at its end */
  url: string
  /** makes another key, which is valid once this resolves */
  addKey(kind: KeyKind, project?: string): Promise<string>
  /** revokes a key of `addKey` */
  revokeKey(key: string): Promise<void>
  /** opens a link such as `#/users` for somebody who has signed in, in a window without other cookies; closes it after the test */
  visit(t: Test, link?: string, key?: string): Promise<Page>
  /** signs in through the form in a tab of one window, where a tab that is opened later hides it */
  visitInTab(link?: string, key?: string): Promise<Page>
}

/** The service with a port and embedded storage, and a real browser to look at its page. What `npm run build` made is served. */
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
  const whenAnswered = (key: string, status: number) =>
    until('the key', async () => {
      const response = await client.call('GET', '/public/users', undefined, { 'x-api-key': key })
      // Of a key that only sends, it is known as soon as it is refused for that.
      return response.statusCode === status || (status === 200 && response.statusCode === 403)
    })
  const addKey: Site['addKey'] = async (kind, projectId = 'default') => {
    const key = makeKey(kind)
    await stored((clickhouse) => insertKeys(clickhouse, [storedKey(key, { projectId, kind })], Date.now()))
    await whenAnswered(key, 200)
    return key
  }
  const revokeKey: Site['revokeKey'] = async (key) => {
    // The store knows the rest by the hash.
    await stored((clickhouse) => revokeKeys(clickhouse, [storedKey(key, { projectId: '', kind: 'read' })]))
    await whenAnswered(key, 401)
  }
  const open = async (context: BrowserContext, link: string) => {
    const page = await context.newPage()
    page.setDefaultTimeout(WAIT_LIMIT_MS)
    watch(t, page, url)
    await page.goto(`${url}/${link}`)
    return page
  }
  const whenSignedIn = (page: Page) => page.getByRole('navigation', { name: 'Views' }).waitFor()
  const windows = new Windows(browser, url)
  const visit: Site['visit'] = async (t, link = '#/', key = SECRET_KEY) => {
    const window = await windows.open()
    const { headers } = await client.call('POST', '/session', {}, { 'x-api-key': key })
    const [name = '', value = ''] = String(headers['set-cookie']).split(/[=;]/)
    await window.addCookies([{ name, value, url, httpOnly: true, sameSite: 'Strict' }])
    const page = await open(window, link)
    page.once('close', () => windows.release(window))
    t.teardown(() => page.close())
    await whenSignedIn(page)
    return page
  }
  const visitInTab: Site['visitInTab'] = async (link = '#/', key = SECRET_KEY) => {
    await window.clearCookies()
    const page = await open(window, link)
    await page.getByLabel('Key of the project').fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await whenSignedIn(page)
    return page
  }
  return { ...client, url, addKey, revokeKey, visit, visitInTab }
}

/** To open a window takes a second of CPU time, five times as much as a tab in it; so it is used again. */
class Windows {
  readonly #browser: Browser
  /** of the site */
  readonly #origin: string
  readonly #free: BrowserContext[] = []

  constructor(browser: Browser, origin: string) {
    this.#browser = browser
    this.#origin = origin
  }

  /** A window that knows nothing of what was done in it before. */
  async open(): Promise<BrowserContext> {
    const free = this.#free.pop()
    if (free) return await this.#forget(free)
    const window = await this.#browser.newContext({ viewport: WIDE, locale: 'en-GB', timezoneId: ZONE })
    // A window ends with its last tab.
    await window.newPage()
    return window
  }

  release(window: BrowserContext): void {
    if (window.pages().length === 1) this.#free.push(window)
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

/** The text of the file that a button saves. */
export async function fileOf(page: Page, button: string | RegExp): Promise<string> {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: button }).click(),
  ])
  return await readFile(await download.path(), 'utf8')
}

/** Fails the test at what goes wrong in a page, or is kept from it by the Content-Security-Policy, and at what it must not do. */
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
    // What the service answers, or that it cannot, is told to people by the page itself.
    if (/^Failed to load resource: (?:the server responded|net::ERR_INTERNET_DISCONNECTED)/.test(message.text())) return
    t.fail(`the console has: ${message.text()}`)
  })
}

/**
 * That everyone can use what the page shows now: in light and dark for axe-core, and as narrow as a phone. Colours do not
 * depend on the width, so two of the four pairs tell as much.
 */
export async function isUsable(t: Test, page: Page, what: string): Promise<void> {
  const looks = [
    { colorScheme: 'light', viewport: WIDE },
    { colorScheme: 'dark', viewport: NARROW },
  ] as const
  for (const { colorScheme, viewport } of looks) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize(viewport)
    t.strictSame(await complaints(page), [], `${what}, ${colorScheme}, ${viewport.width} px wide`)
  }
  const overhang = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  t.equal(overhang, 0, `${what} does not scroll to the side at ${NARROW.width} px`)
  await page.emulateMedia({ colorScheme: null })
  await page.setViewportSize(WIDE)
}

/** What axe-core finds serious. */
async function complaints(page: Page): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(await readFile(AXE, 'utf8'))
  const violations = await page.evaluate<Result[]>("axe.run({ resultTypes: ['violations'] }).then((r) => r.violations)")
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`))
}
