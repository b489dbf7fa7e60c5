import type { Page } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, type Site, startSite } from './page.js'

const DAY_MS = 86_400_000
const SECOND_MS = 1000
const YESTERDAY = Date.now() - DAY_MS

interface Visit {
  id?: string
  user: string
  at: number
  context: object
  /** seconds after the start, event and properties */
  events: [seconds: number, event: string, properties: object][]
}

const page = (path: string, more: object = {}) => ({ url: `https://shop.example${path}?x=1#top`, ...more })
const AUSTRIA = { browser: 'Chrome', os: 'Windows', device: 'desktop', country: 'AT', city: 'Vienna' }
const GERMANY = { browser: 'Firefox', os: 'Linux', device: 'desktop', country: 'DE' }
const PHONE = { browser: 'Safari', os: 'iOS', device: 'mobile', country: 'AT' }

const VISITS: Visit[] = [
  {
    id: 'v1',
    user: 'ada',
    at: YESTERDAY,
    context: AUSTRIA,
    events: [
      [0, '$pageview', page('/', { referrer: 'https://www.google.com/' })],
      [60, '$pageview', page('/pricing')],
      [120, 'purchased', {}],
    ],
  },
  { id: 'v2', user: 'bob', at: YESTERDAY, context: GERMANY, events: [[0, '$pageview', page('/')]] },
  {
    id: 'v3',
    user: 'cy',
    at: YESTERDAY,
    context: PHONE,
    events: [
      [0, '$pageview', page('/blog', { utm_source: 'news', utm_medium: 'email', utm_campaign: 'spring' })],
      [30, '$pageview', page('/pricing')],
    ],
  },
  { id: 'v4', user: 'ada', at: YESTERDAY - DAY_MS, context: AUSTRIA, events: [[0, '$pageview', page('/pricing')]] },
  { id: 'bot', user: 'crawler', at: YESTERDAY, context: { bot: true }, events: [[0, '$pageview', page('/')]] },
  {
    id: 'v0',
    user: 'dora',
    at: YESTERDAY - 35 * DAY_MS,
    context: AUSTRIA,
    events: [
      [0, '$pageview', page('/')],
      [10, '$pageview', page('/pricing')],
    ],
  },
]

async function send({ call }: Site, visits: Visit[]): Promise<void> {
  const events = visits.flatMap(({ id, user, at, context, events }) =>
    events.map(([seconds, event, properties], i) => ({
      event,
      distinct_id: user,
      timestamp: at + seconds * SECOND_MS,
      insert_id: `${user} ${at} ${i}`,
      ...(id !== undefined && { session_id: id }),
      properties,
      context,
    })),
  )
  const lines = events.map((event) => `${JSON.stringify(event)}\n`).join('')
  const { statusCode, body } = await call('POST', '/public/import', lines, { 'content-type': 'application/x-ndjson' })
  if (statusCode !== 200) throw new Error(body)
}

/** The tiles, such as `Visits 4`; the change comes after them. */
const readNumbers = async (page: Page) =>
  (await page.getByRole('list', { name: 'Numbers' }).getByRole('listitem').allInnerTexts()).map((text) =>
    text.split('\n').slice(0, 2).join(' ').replaceAll('\u00a0', ' '),
  )

const waitForNumbers = (page: Page, expected: string[]) =>
  until(`${expected}`, async () => JSON.stringify(await readNumbers(page)) === JSON.stringify(expected))

const findPanel = (page: Page, name: string) => page.getByRole('region', { name, exact: true })

/** The rows of a panel, such as `Direct 2`. */
const readRows = async (page: Page, panel: string) =>
  (await findPanel(page, panel).locator('tbody tr').allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' ').trim())

const waitForRows = (page: Page, panel: string, expected: string[]) =>
  until(`${panel}: ${expected}`, async () => JSON.stringify(await readRows(page, panel)) === JSON.stringify(expected))

const ALL = [
  'Unique visitors 3',
  'Visits 4',
  'Page views 6',
  'Pages per visit 1.5',
  'Bounce rate 50%',
  'Time per visit 38 s',
]

t.test('the view of a site', async (t) => {
  const site = await startSite(t)
  const { visit } = site
  await send(site, VISITS)

  t.test('shows what visitors did, and compares it', async (t) => {
    const page = await visit(t, '#/web')
    await waitForNumbers(page, ALL)
    t.equal(await page.getByRole('navigation', { name: 'Views' }).getByRole('link').first().innerText(), 'Web')
    const before = await page.getByRole('list', { name: 'Numbers' }).getByText('in the previous period').allInnerTexts()
    t.strictSame(
      before.map((text) => text.replaceAll('\u00a0', ' ').replace(/vs\. (.*) in the previous period/, '$1')),
      ['1', '1', '2', '2', '0%', '10 s'],
    )
    const channels = ['Direct 2', 'Email 1', 'Organic Search 1']
    await waitForRows(page, 'Where visitors come from', channels)
    await waitForRows(page, 'Pages', ['/pricing 2', '/ 2', '/blog 1'].toSorted())
    await waitForRows(page, 'Goals', ['purchased 1 25%'])
    await checkAccessibility(t, page, 'the view of a site')
    await page.screenshot({path:'/tmp/webview-wide.png',fullPage:true})
    await page.emulateMedia({ colorScheme: 'dark' })
    await page.setViewportSize({width:390,height:844})
    await page.screenshot({path:'/tmp/webview-narrow.png',fullPage:true})
  })
})
