import type { Page } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, installClock, type Site, startSite } from './page.js'

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

async function send({ call, ...site }: Site, visits: Visit[], key = site.key): Promise<void> {
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
  const headers = { 'content-type': 'application/x-ndjson', 'x-api-key': key }
  const { statusCode, body } = await call('POST', '/public/import', lines, headers)
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

  t.test('opens first, unless the project says otherwise', async (t) => {
    const page = await visit(t)
    await page.getByRole('heading', { name: 'Web', exact: true }).waitFor()
    await site.call('PATCH', '/public/project', { first_view: 'overview' })
    const other = await visit(t)
    await other.getByRole('heading', { name: 'Overview' }).waitFor()
    t.equal(await other.getByRole('navigation', { name: 'Views' }).getByRole('link').first().textContent(), 'Web')
    await site.call('PATCH', '/public/project', { first_view: null })
  })

  t.test('shows and compares what visitors did, and links numbers to users', async (t) => {
    const page = await visit(t, '#/web')
    await waitForNumbers(page, ALL)
    t.equal(await page.getByRole('navigation', { name: 'Views' }).getByRole('link').first().textContent(), 'Web')
    const before = await page
      .getByRole('list', { name: 'Numbers' })
      .getByText(/^vs\. /)
      .allInnerTexts()
    t.strictSame(
      before.map((text) => text.replaceAll('\u00a0', ' ').replace('vs. ', '')),
      ['1', '1', '2', '2', '0%', '10 s'],
    )
    const channels = ['Direct 2', 'Email 1', 'Organic Search 1']
    await waitForRows(page, 'Where visitors come from', channels)
    await findPanel(page, 'Where visitors come from').getByRole('tab', { name: 'Sources' }).click()
    await waitForRows(page, 'Where visitors come from', ['Direct / None 2', 'Google 1', 'news 1'])
    await waitForRows(page, 'Pages', ['/ 2', '/pricing 2', '/blog 1'])
    await waitForRows(page, 'Goals', ['purchased 1 25%'])
    await checkAccessibility(t, page, 'the view of a site')

    await page.getByRole('button', { name: 'Bounce rate', exact: true }).press('Enter')
    await page.getByRole('img', { name: 'Chart of Bounce rate (%)' }).waitFor()
    t.match(page.url(), /number=bounces/)
    await page.getByRole('button', { name: '50%: Bounce rate' }).click()
    const users = page.getByRole('dialog').getByRole('list', { name: 'Users' }).getByRole('link')
    await users.first().waitFor()
    t.strictSame(await users.allInnerTexts(), ['ada', 'bob'])
    await page.keyboard.press('Escape')
    await findPanel(page, 'Where visitors come from').getByRole('button', { name: '1: Visitors, news' }).click()
    await users.getByText('cy', { exact: true }).waitFor()
  })

  t.test('a click on a row filters everything, and a filter can be removed', async (t) => {
    const page = await visit(t, '#/web')
    await findPanel(page, 'Pages').getByRole('button', { name: '/pricing', exact: true }).click()
    const byPage = ['Unique visitors 2', 'Visits 3', 'Page views 5', 'Pages per visit 1.67']
    await waitForNumbers(page, [...byPage, 'Bounce rate 33.3%', 'Time per visit 50 s'])
    await findPanel(page, 'Goals').getByRole('button', { name: 'purchased', exact: true }).click()
    const byGoal = ['Unique visitors 1', 'Visits 1', 'Page views 2', 'Pages per visit 2']
    const ofGoal = [...byGoal, 'Bounce rate 0%', 'Time per visit 2 min']
    await waitForNumbers(page, ofGoal)
    await page.reload()
    await waitForNumbers(page, ofGoal)
    const filters = page.getByRole('list', { name: 'Filters' }).getByRole('listitem')
    t.strictSame(
      (await filters.allInnerTexts()).map((text) => text.replace(/\s*✕/, '')),
      ['Without bots', 'Page is /pricing', 'Goal is purchased'],
    )
    for (const name of ['Goal is purchased', 'Page is /pricing', 'Without bots']) {
      await page.getByRole('button', { name: `Remove filter: ${name}` }).click()
    }
    const withBots = ['Unique visitors 4', 'Visits 5', 'Page views 7', 'Pages per visit 1.4']
    await waitForNumbers(page, [...withBots, 'Bounce rate 60%', 'Time per visit 30 s'])
    await page.getByRole('button', { name: 'Leave out bots' }).click()
    await waitForNumbers(page, ALL)
  })

  t.test('tabs are part of the link, and have a file and a question', async (t) => {
    const page = await visit(t, '#/web')
    const places = findPanel(page, 'Places')
    await waitForRows(page, 'Places', ['Austria 2', 'Germany 1'])
    t.equal(await download(page, 'CSV of countries'), '\uFEFFCountry,Visitors\r\nAustria,2\r\nGermany,1\r\n')
    await places.getByRole('tab', { name: 'Countries' }).press('End')
    await waitForRows(page, 'Places', ['Vienna 1'])
    await page.reload()
    await waitForRows(page, 'Places', ['Vienna 1'])
    t.equal(await places.getByRole('tab', { name: 'Cities' }).getAttribute('aria-selected'), 'true')
    await findPanel(page, 'Pages').getByRole('tab', { name: 'Exit pages' }).click()
    await waitForRows(page, 'Pages', ['/pricing 2', '/ 1'])
    await waitForRows(page, 'Goals', ['purchased 1 25%'])
    t.equal(await download(page, 'CSV of goals'), '\uFEFFEvent,Visits,Rate\r\npurchased,1,0.25\r\n')
    await waitForNumbers(page, ALL)
    t.match(await download(page, 'CSV of visits'), /\r\nTotal,3,4,6,1\.5,50,37\.5\r\n$/)
    await page.getByRole('link', { name: 'Explore exit pages' }).click()
    await page.getByRole('heading', { name: 'Explore' }).waitFor()
    await page.getByText('/pricing', { exact: true }).first().waitFor()
  })

  t.test('goals and rows beyond the first ten, by keyboard', async (t) => {
    const key = await site.addKey('secret', 'larger')
    const numbers = Array.from({ length: 12 }, (_, i) => i + 1)
    const rare = Array.from({ length: 10 }, (_, i) => `rare ${i}`)
    const visits = numbers.map((n): Visit => {
      const others = [...(n <= 3 ? ['purchased'] : []), ...(n === 1 ? rare : [])]
      const events = others.map((name): Visit['events'][number] => [1, name, {}])
      const view: Visit['events'][number] = [0, '$pageview', page(`/${n}`)]
      return { id: `${n}`, user: `user ${n}`, at: YESTERDAY, context: AUSTRIA, events: [view, ...events] }
    })
    await send(site, visits, key)
    const tab = await visit(t, '#/web', key)
    const goals = findPanel(tab, 'Goals')
    await until('suggestions', async () => (await readRows(tab, 'Goals')).length === 5)
    t.equal((await readRows(tab, 'Goals'))[0], 'purchased 3 25%')
    t.notMatch(tab.url(), 'goals=')

    await goals.getByText('Choose goals').press('Enter')
    const removals = goals.getByRole('button', { name: /^Remove goal/ })
    await removals.last().waitFor()
    await tab.keyboard.press('Tab')
    for (const left of [4, 3, 2, 1, 0]) {
      await tab.keyboard.press('Enter')
      await until(`${left} goals`, async () => (await removals.count()) === left)
    }
    await goals.getByText('Choose the events that visits should lead to').waitFor()
    await tab.keyboard.press('Tab')
    for (const [i, text] of ['purch', 'rare 7'].entries()) {
      await tab.keyboard.type(text)
      await tab.keyboard.press('Enter')
      await until(text, async () => (await removals.count()) === i + 1)
    }
    const chosen = ['purchased 3 25%', 'rare 7 1 8.3%']
    await waitForRows(tab, 'Goals', chosen)
    await goals.getByRole('button', { name: 'Use the most frequent events' }).click()
    await until('suggestions', async () => (await readRows(tab, 'Goals')).length === 5)
    t.notMatch(tab.url(), 'goals=')

    const more = findPanel(tab, 'Pages').getByRole('button', { name: 'More pages' })
    await more.press('Enter')
    const dialog = tab.getByRole('dialog', { name: 'Pages' })
    const rows = dialog.getByRole('row')
    await until('all rows', async () => (await rows.count()) === 1 + numbers.length)
    await checkAccessibility(t, tab, 'all pages')
    await tab.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
    t.ok(await more.evaluate((button) => button === button.ownerDocument.activeElement), 'the focus is back')
    await more.press('Enter')
    await dialog.getByRole('button', { name: '/11', exact: true }).press('Enter')
    await dialog.waitFor({ state: 'detached' })
    await waitForRows(tab, 'Pages', ['/11 1'])
    const remove = tab.getByRole('button', { name: 'Remove filter: Page is /11' })
    await remove.press('Enter')
    await until('all visits', async () => (await readNumbers(tab))[1] === 'Visits 12')
    const bots = tab.getByRole('button', { name: 'Remove filter: Without bots' })
    t.ok(await bots.evaluate((button) => button === button.ownerDocument.activeElement), 'the focus is on the next')
  })

  t.test('an open view follows the clock, and says what is missing', async (t) => {
    const page = await visit(t, '#/web?range=yesterday')
    let pending = 0
    await page.route('**/public/query', async (route) => {
      const response = await route.fetch()
      await route.fulfill({ response, json: { ...(await response.json()), pending } })
    })
    await installClock(page)
    await page.reload()
    await until('yesterday', async () => (await readNumbers(page))[1] === 'Visits 3')
    pending = 2
    await page.clock.fastForward(DAY_MS)
    await until('the day after', async () => (await readNumbers(page))[1] === 'Visits 0')
    await page.getByText('2\u00a0recent events are not counted yet.').waitFor()
    const pages = page.getByRole('list', { name: 'Numbers' }).getByRole('listitem').nth(3)
    t.match(await pages.textContent(), /–.*vs\. 1\.67/, 'the average of nothing has one before')

    const held: (() => void)[] = []
    await page.route('**/public/query', async (route) => {
      await new Promise<void>((resolve) => held.push(resolve))
      await route.fulfill({ status: 422, json: { status: 0, code: 'query_too_large', error: 'Too large.' } })
    })
    await page.clock.fastForward(60_000)
    await until('a refresh', () => held.length > 0)
    const letFail = setInterval(() => held.splice(0).forEach((fail) => void fail()), 10)
    t.teardown(() => clearInterval(letFail))
    await page.getByRole('region', { name: 'Visits' }).getByText('Too large.').waitFor()
    t.equal((await readNumbers(page))[1], 'Visits 0', 'the numbers stay')
  })

  t.test('says that the project no longer keeps all events', async (t) => {
    const set = (events: string | null) => site.call('PATCH', '/public/project', { keep: { events } })
    t.teardown(() => set(null))
    t.equal((await set('50d')).statusCode, 200)
    const page = await visit(t, '#/web')
    await page.getByText(/^Events before .+ are no longer kept\. The previous period begins earlier/).waitFor()
  })

  t.test('a goal keeps its own numbers while another one is removed', async (t) => {
    const page = await visit(t, `#/web?goals=${encodeURIComponent('["purchased","nothing"]')}`)
    await waitForRows(page, 'Goals', ['purchased 1 25%', 'nothing 0 0%'])
    await page.route('**/public/query', () => undefined)
    await findPanel(page, 'Goals').getByText('Choose goals').click()
    await page.getByRole('button', { name: 'Remove goal: purchased' }).click()
    await waitForRows(page, 'Goals', ['nothing 0 0%'])
  })

  t.test('shows who is online now', async (t) => {
    const online = { user: 'eve', at: Date.now(), context: GERMANY, events: [] as Visit['events'] }
    await send(site, [{ ...online, id: 'now', events: [[0, 'looked', {}]] }])
    const page = await visit(t, '#/web')
    await page.getByRole('button', { name: '1\u00a0visitor online' }).waitFor()
  })
})

t.test('page views without session ids', async (t) => {
  const site = await startSite(t)
  const page = await site.visit(t, '#/users')
  await page.getByRole('heading', { name: 'Users' }).waitFor()
  const views = page.getByRole('navigation', { name: 'Views' }).getByRole('link')
  t.equal(await views.first().textContent(), 'Boards', 'there are no page views yet')
  await send(
    site,
    VISITS.map(({ id: _, ...visit }) => visit),
  )
  await until('the view', async () => {
    await page.getByRole('link', { name: 'Data', exact: true }).click()
    await page.getByRole('link', { name: 'Users', exact: true }).click()
    return (await views.first().textContent()) === 'Web'
  })
  const overview = await site.visit(t, '#/overview')
  const card = overview.getByRole('region', { name: 'Visits by source, by pauses' })
  await card.getByText('Google').waitFor()
  await page.getByRole('link', { name: 'Web', exact: true }).click()
  await page.getByRole('button', { name: 'Tell visits apart by pauses of 30 minutes' }).click()
  await waitForNumbers(page, ALL)
  t.match(page.url(), /visits=gap/)
  await page.getByRole('button', { name: 'Tell visits apart by session ids' }).waitFor()

  const readProject = async () => (await site.call('GET', '/public/project')).json().project
  const ask = async (from: string) => {
    await page.getByRole('button', { name: 'Make it the project’s default…' }).click()
    await page.getByText(`Visits are told apart by ${from} now. This changes that to pauses of 30 minutes`).waitFor()
  }
  const dialog = page.getByRole('dialog')
  await ask('session ids')
  t.equal((await readProject()).sessions, 'id', 'nothing is changed before the confirmation')
  const theirs = { gap: '2h', where: ['set', 'properties.url'] }
  await site.call('PATCH', '/public/project', { sessions: theirs })
  await dialog.getByRole('button', { name: 'Make it the default' }).click()
  await dialog.getByRole('alert').waitFor()
  t.strictSame((await readProject()).sessions, theirs, 'what the dialog did not show is kept')
  await site.call('PATCH', '/public/project', { sessions: null })
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await ask('session ids')
  await dialog.getByRole('button', { name: 'Make it the default' }).click()
  await until('a link that follows the project', () => !page.url().includes('visits='))
  t.strictSame((await readProject()).sessions, { gap: '30m' })
  const next = await site.visit(t, '#/web')
  await waitForNumbers(next, ALL)
  await next.getByText('A visit ends with a pause of 30 minutes.').waitFor()
  t.equal(await next.getByRole('button', { name: 'Make it' }).count(), 0, 'it is the default')
  await next.getByRole('button', { name: 'Tell visits apart by session ids' }).click()
  await until('the other definition', () => next.url().includes('visits=id'))
  await next.getByRole('button', { name: 'Make it the project’s default…' }).waitFor()

  const now: Visit = { user: 'eve', at: Date.now(), context: GERMANY, events: [[0, '$pageview', { path: '/now' }]] }
  await send(site, [now])
  const where = encodeURIComponent(JSON.stringify(['is', 'session.entry.page.path', ['/now']]))
  const online = await site.visit(t, `#/web?where=${where}`)
  await online.getByRole('button', { name: '1\u00a0visitor online' }).waitFor()
})

t.test('the overview separates visits like the newest page views', async (t) => {
  const site = await startSite(t)
  const views = Array.from({ length: 21 }, (_, i): Visit => {
    const events: Visit['events'] = [[0, '$pageview', page('/')]]
    return { user: `user ${i}`, at: YESTERDAY, context: AUSTRIA, events, ...(i === 20 && { id: 'new' }) }
  })
  await send(site, views)
  const overview = await site.visit(t, '#/overview')
  await overview.getByRole('region', { name: 'Answer of Visits by source', exact: true }).waitFor()
})

t.test('a project names its page views, and where their fields come from', async (t) => {
  const site = await startSite(t)
  await send(site, [
    {
      user: 'ada',
      id: 's',
      at: YESTERDAY,
      context: AUSTRIA,
      events: [[0, 'opened', { where: 'https://shop.example/x' }]],
    },
  ])
  const change = { page_views: ['opened'], page_fields: { path: null, url: ['properties.where'] } }
  t.equal((await site.call('PATCH', '/public/project', change)).statusCode, 200)
  const page = await site.visit(t, '#/web')
  await page.getByRole('region', { name: 'Pages' }).getByText('/x', { exact: true }).waitFor()
  await page.goto(`${page.url().split('#')[0]}#/users/ada`)
  await page.getByText('began at').waitFor()

  const link = page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Web', exact: true })
  const form = page.getByRole('region', { name: 'Visits and pages' })
  const save = async (pageView: string) => {
    await form.getByLabel('Page views').fill(pageView)
    await form.getByRole('button', { name: 'Save' }).click()
  }
  await page.getByRole('link', { name: 'Settings', exact: true }).click()
  await link.waitFor()
  await save('other')
  await link.waitFor({ state: 'detached' })
  await save('opened')
  await link.waitFor()
})
