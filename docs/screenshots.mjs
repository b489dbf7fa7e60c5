// Takes the pictures of docs/screenshots/: every view of the page, wide and narrow, light and dark, with the data of
// the demo. Needs what `npm run build` makes, and Chromium.
//   npm run screenshots                 all of them
//   npm run screenshots -- live users   those views
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TARGET = join(ROOT, 'docs/screenshots')
const SECRET_KEY = 'sk_screenshots_only'
const EVENTS = 30_000
/** As `test/ensure-tools.mjs` looks for it. */
const PROGRAMS = [
  'chromium',
  'chromium-browser',
  'google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]
const SIZES = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
]
const SCHEMES = /** @type {const} */ (['light', 'dark'])
const MAX_BYTES = 150_000
const MAX_TOTAL_BYTES = 4_000_000
const LIMIT_MS = 120_000

const funnel = { kind: 'funnel', steps: named(['$pageview', 'product viewed', 'checkout started', 'purchased']) }
const retention = { kind: 'retention', start: { event: 'signed up' }, return: { event: '*' }, unit: 'week' }
const paths = { kind: 'paths', start: { event: 'product viewed' }, steps: 3, window: '1d', limit: 6 }
const series = {
  kind: 'series',
  series: [{ event: '$pageview', metric: 'users' }],
  breakdown: ['properties.device'],
}
/** Every view with a link, and what is there once it is complete. */
const VIEWS = [
  { name: 'web', link: '#/web', ready: 'main td' },
  { name: 'overview', link: '#/overview', ready: 'main table' },
  { name: 'live', link: '#/live', ready: 'ol[aria-label="Events, newest first"] li', before: sendSome },
  { name: 'series', link: question(series, '90d'), ready: 'figure canvas' },
  { name: 'funnel', link: question(funnel, '90d'), ready: 'section[aria-label="Step 1"] h3' },
  { name: 'retention', link: question(retention, '90d'), ready: 'section[aria-label="Cohorts"] td' },
  { name: 'paths', link: question(paths, '30d'), ready: 'svg[aria-label="Flow"]' },
  { name: 'users', link: '#/users', ready: 'main table' },
  { name: 'user', link: '#/users', ready: 'section[aria-label="Events"] li', before: openUser },
  { name: 'data', link: '#/data', ready: 'main table' },
  { name: 'health', link: '#/health', ready: 'main section' },
]

const wanted = process.argv.slice(2)
const folder = await mkdtemp(join(tmpdir(), 'tallyhouse-screenshots-'))
await mkdir(TARGET, { recursive: true })
const service = await startService()
const program = PROGRAMS.find((name) => spawnSync(name, ['--version']).status === 0)
const executablePath = program && (spawnSync('which', [program], { encoding: 'utf8' }).stdout.trim() || program)
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
let total = 0
try {
  const context = await browser.newContext({ locale: 'en-GB', timezoneId: 'Europe/Berlin', reducedMotion: 'reduce' })
  const page = await context.newPage()
  page.setDefaultTimeout(LIMIT_MS)
  await page.goto(service.url)
  await page.getByLabel('Key of the project').waitFor()
  await take(page, 'sign-in')
  await page.getByLabel('Key of the project').fill(SECRET_KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1 }).waitFor()
  await take(page, 'welcome')
  await fillDemo()
  await page.goto(`${service.url}/#/users`)
  await page.reload()
  for (const { name, link, ready, before } of VIEWS) {
    if (!isWanted(name)) continue
    await page.setViewportSize(SIZES[0])
    await page.mouse.move(0, 0)
    await page.goto(`${service.url}/${link}`)
    await before?.(page)
    await page.locator(ready).first().waitFor()
    await take(page, name)
  }
} finally {
  await browser.close()
  const ended = once(service.process, 'exit')
  service.process.kill()
  await ended
  await rm(folder, { recursive: true, force: true })
}
console.log(`${Math.round(total / 1000)} kB in ${TARGET}`)
if (total > MAX_TOTAL_BYTES) throw new Error(`more than ${MAX_TOTAL_BYTES} bytes`)

/** @param {string} name */
function isWanted(name) {
  return wanted.length === 0 || wanted.includes(name)
}

/** @param {string[]} names */
function named(names) {
  return names.map((event) => ({ event }))
}

/** @param {object} value @param {string} range */
function question(value, range) {
  return `#/explore?${new URLSearchParams({ q: JSON.stringify(value), range })}`
}

/** What is in sight, in each size and scheme. @param {import('playwright-core').Page} page @param {string} name */
async function take(page, name) {
  if (!isWanted(name)) return
  const devTools = await page.context().newCDPSession(page)
  for (const size of SIZES) {
    for (const colorScheme of SCHEMES) {
      await page.setViewportSize(size)
      await page.emulateMedia({ colorScheme })
      await whenQuiet(page)
      // A third of the bytes of PNG; Playwright itself only makes that and JPEG.
      const { data } = await devTools.send('Page.captureScreenshot', { format: 'webp', quality: 85 })
      const bytes = Buffer.from(data, 'base64')
      const path = join(TARGET, `${name}-${size.width}-${colorScheme}.webp`)
      await writeFile(path, bytes)
      if (bytes.length > MAX_BYTES) throw new Error(`${path} has ${bytes.length} bytes`)
      total += bytes.length
    }
  }
}

/** Once nothing in sight is being loaded, and what was resized is drawn. @param {import('playwright-core').Page} page */
async function whenQuiet(page) {
  await page.waitForFunction(() => {
    const waiting = [...document.querySelectorAll('[aria-busy="true"], [data-loading]')]
    return waiting.every((element) => element.getBoundingClientRect().top > innerHeight)
  })
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
}

/** A year of an invented shop, until today. */
async function fillDemo() {
  const keyFile = join(folder, 'key')
  await writeFile(keyFile, SECRET_KEY)
  const options = ['--events', String(EVENTS), '--url', service.url, '--key-file', keyFile]
  const child = spawn(process.execPath, [join(ROOT, 'dist/cli.js'), 'demo', ...options], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`the demo ended with ${code}`)
  await call('POST', '/public/query', {
    kind: 'series',
    series: [{ event: '*' }],
    interval: 'none',
    from: '2020-01-01',
  })
}

/** Events of this moment, so that Live has some. @param {import('playwright-core').Page} page */
async function sendSome(page) {
  await page.getByRole('heading', { level: 1 }).waitFor()
  const names = ['$pageview', 'product viewed', 'searched', '$pageview', 'added to cart', 'checkout started']
  const people = ['ada', 'grace', 'alan', 'edsger', 'barbara']
  for (let i = 0; i < 14; i++) {
    const properties = { path: '/tea', device: i % 3 ? 'desktop' : 'mobile', price: 9.9 + i }
    await call('POST', '/public/track', {
      event: names[i % names.length],
      distinct_id: people[i % people.length],
      properties,
    })
  }
  await page
    .locator('a[aria-label^="User "]', { hasText: /^(?:ada|grace|alan|edsger|barbara)$/ })
    .nth(13)
    .waitFor()
}

/** @param {import('playwright-core').Page} page */
async function openUser(page) {
  // The first five are those of `sendSome`, who have no sessions.
  await page.getByRole('table', { name: 'Users' }).getByRole('link').nth(8).click()
  await page.mouse.move(0, 0)
}

/** @param {string} method @param {string} path @param {object} body */
async function call(method, path, body) {
  const headers = { 'content-type': 'application/json', 'x-api-key': SECRET_KEY }
  const response = await fetch(service.url + path, { method, headers, body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
}

/** With everything embedded, in a folder that is removed again. */
async function startService() {
  const env = { PATH: process.env.PATH, PORT: '0', DATA_DIR: join(folder, 'data'), SECRET_KEY, LOG_LEVEL: 'warn' }
  const child = spawn(process.execPath, [join(ROOT, 'dist/main.js')], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    output += chunk
    const url = /Tallyhouse serves at (\S+)/.exec(output)?.[1]
    if (url) return { url, process: child.on('error', console.error) }
  }
  throw new Error(`the service ended: ${output}`)
}
