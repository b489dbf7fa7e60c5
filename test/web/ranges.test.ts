import type { Page } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, startSite } from './page.js'

const DAY_MS = 86_400_000
const ZONE = 'Europe/Berlin'
const NARROW = { width: 390, height: 844 }
const site = await startSite(t)
const FIRST = Date.now() - 500 * DAY_MS

/** @throws Error if the service does not accept them */
async function track(events: object[]): Promise<void> {
  const response = await site.call('POST', '/public/track/batch', { events })
  if (response.statusCode !== 200) throw new Error(response.body)
}

/** One event an hour over the last 200 days, and one 500 days ago. */
async function fill(): Promise<void> {
  const now = Date.now()
  const hours = Array.from({ length: 200 * 24 }, (_, i) => ({
    event: 'opened',
    distinct_id: `u${i % 7}`,
    timestamp: now - i * 3_600_000,
    properties: { country: i % 3 ? 'AT' : 'DE', plan: `plan ${i % 20}` },
  }))
  for (let i = 0; i < hours.length; i += 800) await track(hours.slice(i, i + 800))
  await track([{ event: 'paid', distinct_id: 'u1', timestamp: FIRST }])
}
await fill()

function buildLink(question: object, more = ''): string {
  return `#/explore?q=${encodeURIComponent(JSON.stringify({ timezone: ZONE, ...question }))}${more}`
}
const OPENED = { kind: 'series', series: [{ event: 'opened' }] }

/** The rows of the answer as a CSV file, without the heading. */
async function readCsv(page: Page): Promise<string[][]> {
  await page.getByText('Answered in').waitFor()
  const lines = (await download(page, 'Download CSV')).trim().split('\r\n')
  return lines.slice(1).map((line) => line.split(','))
}

/** The dates of the rows of the table, without that of the total. */
async function readDates(page: Page): Promise<string[]> {
  const cells = page.getByRole('region', { name: 'Table: Numbers' }).locator('tbody tr td:first-child')
  return (await cells.allTextContents()).slice(0, -1)
}

/** The total of events in a range, from the service. */
async function countEvents(from: string, to: string, more: object = {}): Promise<number> {
  const question = { ...OPENED, interval: 'none', timezone: ZONE, from, to, ...more }
  const response = await site.call('POST', '/public/query', question)
  return response.json().results[0].total
}

const formatDate = (ms: number) => new Intl.DateTimeFormat('en-CA', { timeZone: ZONE }).format(ms)
const formatEnglish = (ms: number) => new Intl.DateTimeFormat('en', { timeZone: ZONE, dateStyle: 'medium' }).format(ms)
const findBar = (page: Page) => page.getByRole('combobox', { name: 'Date range' })
const findAnswer = (page: Page) => page.getByRole('region', { name: 'Answer', exact: true })

t.test('a comparison by week or month has every bucket once, its dates, and columns that add up', async (t) => {
  for (const [interval, range] of [
    ['month', '90d'],
    ['week', 'last_month'],
  ] as const) {
    const page = await site.visit(t, buildLink({ ...OPENED, interval }, `&range=${range}&compare=1&as=table`))
    const table = page.getByRole('region', { name: 'Table: Numbers' })
    await table.getByRole('columnheader', { name: 'Previous period', exact: true }).waitFor()
    const rows = await readCsv(page)
    const totals = rows.pop() ?? []
    for (const [date, column] of [
      [0, 2],
      [1, 3],
    ] as const) {
      const sum = rows.reduce((all, row) => all + Number(row[column]), 0)
      t.equal(sum, Number(totals.at(column - 4)), `${interval} ${range}: column ${column}`)
      const dates = rows.map((row) => row[date] ?? '').filter((text) => text !== '')
      t.ok(dates.length > 0 && new Set(dates).size === dates.length)
    }
    if (range === '90d')
      t.ok(
        rows.every(([now, before]) => now && before),
        'the same shape',
      )
    await page.close()
  }
})

t.test('presets stay relative in the link, and all time begins with the first event', async (t) => {
  const page = await site.visit(t, buildLink(OPENED, '&as=table'))
  const today = formatDate(Date.now())
  await findBar(page).selectOption('Yesterday')
  await page.waitForURL(/range=yesterday/)
  await until('hours', async () => (await readDates(page)).some((date) => date.endsWith('5:00 PM')))
  t.equal(await page.getByRole('combobox', { name: 'Interval' }).inputValue(), 'hour')
  await findBar(page).selectOption('This month')
  await page.waitForURL(/range=this_month/)
  const month = formatEnglish(Date.parse(`${today.slice(0, 8)}01T12:00Z`))
  await until('the days of this month', async () => {
    const dates = await readDates(page)
    return dates[0]?.endsWith(month) && dates.length === Number(today.slice(8))
  })
  await findBar(page).selectOption('All time')
  const first = formatEnglish(FIRST)
  await until(first, async () => (await readDates(page))[0]?.endsWith(first))
  t.ok(await page.getByLabel('Compare to previous period').isDisabled())
  const shared = await site.visit(t, new URL(page.url()).hash)
  t.equal(await findBar(shared).inputValue(), 'all')
})

t.test('a custom range keeps its dates and its dialog when a time zone is chosen', async (t) => {
  const page = await site.visit(t, buildLink(OPENED, '&range=7d&as=table'))
  await findBar(page).selectOption('Custom range…')
  const from = formatDate(Date.now() - 20 * DAY_MS)
  const to = formatDate(Date.now() - 10 * DAY_MS)
  await page.getByLabel('From', { exact: true }).fill(from)
  await page.getByLabel('To', { exact: true }).fill(to)
  await until('the days', async () => (await readDates(page)).length === 11)
  await page.getByText(ZONE).first().click()
  const zone = page.getByRole('combobox', { name: 'Time zone' })
  await zone.fill('Tokyo')
  await Promise.all([
    page.waitForRequest((request) => request.postData()?.includes('"Asia/Tokyo"') ?? false),
    page.getByRole('option', { name: 'Asia/Tokyo' }).click(),
  ])
  t.ok(await zone.isVisible(), 'the dialog stays open')
  t.equal(await page.getByLabel('From', { exact: true }).inputValue(), from)
  t.equal(await page.getByLabel('To', { exact: true }).inputValue(), to)
  await checkAccessibility(t, page, 'a custom range')
  await page.getByLabel('To', { exact: true }).fill(formatDate(Date.now() - 30 * DAY_MS))
  await until('one day', async () => (await readDates(page)).some((date) => date.endsWith('5:00 PM')))
})

t.test('a custom range shows its times, and keeps them while something else is changed', async (t) => {
  const day = (days: number) => formatDate(Date.now() - days * DAY_MS)
  const range = { from: `${day(5)}T10:30`, to: `${day(2)}T09:00` }
  const page = await site.visit(t, buildLink({ ...OPENED, ...range }, '&as=table'))
  const [from, to] = [page.getByLabel('From', { exact: true }), page.getByLabel('To', { exact: true })]
  t.equal(await from.inputValue(), `${day(5)} 10:30`)
  t.equal(await to.inputValue(), `${day(2)} 09:00`)
  await until('the days', async () => (await readDates(page)).length === 4)
  const dates = await readDates(page)
  t.match([dates[0], dates[3]], [/, from 10:30 AM$/, /, until 9:00 AM$/])
  const isAsked = (bounds: object) =>
    page.waitForRequest((request) => {
      const question = request.url().endsWith('/query') && request.postDataJSON()
      return question && Object.entries(bounds).every(([name, value]) => question[name] === value)
    })
  await Promise.all([isAsked(range), page.getByRole('combobox', { name: 'Interval' }).selectOption('hourly')])
  await Promise.all([isAsked({ ...range, from: day(6) }), from.fill(day(6))])
  await Promise.all([isAsked({ from: `${day(6)}T08:15`, to: range.to }), from.fill(`${day(6)} 08:15`)])
  await from.fill(`${day(6)} 08:1`)
  await from.blur()
  t.equal(await from.inputValue(), `${day(6)} 08:15`, 'half a time is not applied')
  await page.setViewportSize(NARROW)
  t.ok(await from.evaluate((input) => input.scrollWidth <= input.clientWidth), 'the time is not cut off')
})

t.test('dates and numbers are English in an Egyptian browser', async (t) => {
  const more = '&range=last_month&compare=1&as=table'
  const page = await site.visit(t, buildLink({ ...OPENED, interval: 'week' }, more), undefined, 'ar-EG')
  const month = new Date(Date.now())
  month.setUTCDate(0)
  const name = new Intl.DateTimeFormat('en', { month: 'short', timeZone: 'UTC' }).format(month)
  const cell = page.getByRole('region', { name: 'Table: Numbers' }).getByRole('cell')
  await cell
    .filter({ hasText: new RegExp(`^(?:Week of )?${name} \\d`) })
    .first()
    .waitFor()
  await findBar(page).selectOption('Custom range…')
  t.match(await page.getByLabel('From', { exact: true }).inputValue(), /^\d{4}-\d\d-01$/)
})

t.test('bars show both periods', async (t) => {
  const page = await site.visit(t, buildLink({ ...OPENED, interval: 'none' }, '&range=7d&compare=1&as=bar'))
  const tracks = findAnswer(page).getByRole('listitem').locator('[aria-hidden="true"] > span')
  await tracks.nth(1).waitFor()
  const [now, before] = [await tracks.nth(0).boundingBox(), await tracks.nth(1).boundingBox()]
  t.ok(now && before && before.y > now.y && before.width > 0.9 * now.width, 'about the same number of events in each')
  await findAnswer(page)
    .getByText(/vs\. \d+ in the previous period/)
    .waitFor()

  await page.getByRole('combobox', { name: 'Interval' }).selectOption('daily')
  const canvas = page.locator('.u-over')
  const box = await canvas.boundingBox()
  if (!box) return t.fail('there is no chart')
  // In the middle of seven days, the bar of the previous period is to the left.
  await canvas.click({ position: { x: box.width / 2 - 8, y: box.height - 8 } })
  const title = async () => await page.getByRole('dialog').getAttribute('aria-label')
  const earlier = await title()
  await page.keyboard.press('Escape')
  await canvas.click({ position: { x: box.width / 2 + 8, y: box.height - 8 } })
  const later = await title()
  const days = [earlier, later].map((text) => Date.parse(text?.replace(/^opened, \w+, /, '') ?? ''))
  t.equal(Math.round(((days[1] ?? 0) - (days[0] ?? 0)) / DAY_MS), 7, `${earlier} and ${later}`)
})

t.test('the chart stays while a series is added, and no field is red before its value could be chosen', async (t) => {
  const page = await site.visit(t, buildLink(OPENED, '&range=7d'))
  const chart = findAnswer(page).getByRole('img', { name: /^Chart of opened/ })
  await chart.waitFor()
  await page.getByRole('button', { name: '+ Series' }).click()
  await page.getByText('Choose an event.').waitFor()
  t.equal(await page.getByText('Choose an event.').count(), 1, 'it is said once, and not at the field')
  await findBar(page).selectOption('Last 90 days')
  await page.getByRole('radio', { name: 'Table' }).check()
  await until('the range to apply', async () => (await readDates(page)).length === 90)
  await page.getByRole('radio', { name: 'Lines' }).check()
  await chart.waitFor()
  t.ok(await chart.isVisible())
  await page.getByRole('group', { name: 'Series 1' }).getByRole('combobox', { name: 'Metric' }).selectOption('Minimum')
  await page.getByText('Choose a property that is a number.').or(page.getByText('Choose an event.')).waitFor()
  t.ok(await chart.isVisible())
  t.equal(await page.getByRole('alert').count(), 0)
})

t.test('tables of funnels and cohorts are readable on a phone and on a desktop', async (t) => {
  const long = 'a name that is rather long'
  const events = ['one', long].map((event, i) => ({ event, distinct_id: 'f', timestamp: Date.now() - 5000 + i }))
  await track(events)
  const steps = [{ event: 'one' }, { event: long }]
  const funnel = { kind: 'funnel', steps, breakdown: ['properties.country', 'properties.plan'] }
  const page = await site.visit(t, buildLink(funnel, '&range=7d&as=table'))
  for (const viewport of [{ width: 1280, height: 900 }, NARROW]) {
    await page.setViewportSize(viewport)
    const cells = page.getByRole('region', { name: 'Table: Steps' }).getByRole('cell', { name: long })
    await cells.first().waitFor()
    const { width = 0, height = 0 } = (await cells.first().boundingBox()) ?? {}
    t.ok(width > 90 && height < 110, `the name is ${width} px wide and ${height} px high`)
  }
  await page.goto(`${site.url}/${buildLink({ kind: 'retention', start: 'opened', return: '*' }, '&range=30d')}`)
  await page.setViewportSize(NARROW)
  const cohorts = page.getByRole('region', { name: 'Cohorts' })
  await cohorts.getByRole('rowheader', { name: 'Average' }).waitFor()
  const heights = await cohorts
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height))
  t.ok(heights.length > 20 && Math.max(...heights) < 60, `no row breaks: ${heights}`)
})

t.test('a board has one range, time zone and filter for all its cards', async (t) => {
  const card = (id: string, question: object, display: object = {}) => {
    return { id, name: id, question, width: 2, display }
  }
  const cards = [
    card('Total', { ...OPENED, interval: 'none', from: '2020-01-01', to: '2020-01-02' }, { as: 'number' }),
    card('Plans', { ...OPENED, breakdown: ['properties.plan'], interval: 'none', limit: 20 }, { as: 'bar' }),
    card('Days', { ...OPENED, interval: 'day' }, { as: 'table', range: '12m' }),
  ]
  await site.call('PUT', '/public/boards/b', { name: 'Ours', cards, display: { range: '7d', timezone: ZONE } })
  const page = await site.visit(t, '#/board/b')
  const answer = (name: string) => page.getByRole('region', { name: `Answer of ${name}` })
  const total = answer('Total').getByRole('button')
  t.equal(await findBar(page).inputValue(), '7d')
  const week = await countEvents(formatDate(Date.now() - 6 * DAY_MS), formatDate(Date.now() + DAY_MS))
  await until(`${week}`, async () => (await total.textContent()) === String(week))

  const controls = page.getByRole('region', { name: 'All cards' })
  await findBar(page).selectOption('Yesterday')
  await page.waitForURL(/range=yesterday/)
  // The hours of a day and the total.
  await answer('Days')
    .getByRole('button', { name: /^Show all 2[4-6] rows$/ })
    .waitFor()
  await controls.getByText('Filter', { exact: false }).first().click()
  await controls.getByRole('button', { name: '+ Filter' }).click()
  await controls.getByRole('combobox', { name: 'Field' }).fill('country')
  await controls.getByRole('combobox', { name: 'Field' }).press('Enter')
  await controls.getByRole('combobox', { name: 'Value' }).fill('DE')
  await controls.getByRole('combobox', { name: 'Value' }).press('Enter')
  await controls.getByText('Only country is DE').waitFor()
  const where = ['is', 'properties.country', ['DE']]
  const filtered = await countEvents(formatDate(Date.now() - DAY_MS), formatDate(Date.now()), { where })
  await until(`${filtered}`, async () => (await total.textContent()) === String(filtered))
  t.match((await site.call('GET', '/public/boards/b')).json().board, { display: { range: '7d' } }, 'nothing is saved')

  const shared = await site.visit(t, new URL(page.url()).hash, await site.addKey('read'))
  await shared
    .getByRole('region', { name: 'Answer of Total' })
    .getByRole('button', { name: `${filtered}:` })
    .waitFor()
  await page.getByRole('link', { name: 'Total', exact: true }).click()
  await page.getByRole('button', { name: `${filtered}: opened` }).waitFor()
  await page.goBack()

  await page.getByRole('button', { name: 'Edit board' }).click()
  await page.getByRole('button', { name: 'Save board' }).click()
  await page.getByRole('button', { name: 'Edit board' }).waitFor()
  t.equal(new URL(page.url()).hash, '#/board/b')
  await until('the saved range', async () => (await findBar(page).inputValue()) === 'yesterday')
  t.match((await site.call('GET', '/public/boards/b')).json().board, { display: { range: 'yesterday', where } })
  await checkAccessibility(t, page, 'a board with controls')
})

t.test('a card shows whole rows, and all of them on demand', async (t) => {
  const question = { ...OPENED, breakdown: ['properties.plan'], interval: 'none', limit: 20 }
  const cards = [{ id: 'plans', name: 'Plans', question, width: 2, display: { as: 'bar' } }]
  await site.call('PUT', '/public/boards/c', { name: 'Rows', cards, display: { range: '30d' } })
  const page = await site.visit(t, '#/board/c')
  for (const viewport of [{ width: 1280, height: 900 }, NARROW]) {
    await page.setViewportSize(viewport)
    await page.reload()
    const answer = page.getByRole('region', { name: 'Answer of Plans' })
    const rows = answer.getByRole('listitem')
    await rows.first().waitFor()
    t.equal(await rows.count(), 12)
    await answer.getByRole('button', { name: 'Show all 20 rows' }).click()
    t.equal(await rows.count(), 20)
    const hidden = await answer.evaluate((region) => region.scrollHeight - region.clientHeight)
    t.equal(hidden, 0, 'nothing is cut off')
  }
})
