import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, readCells, startSite } from './page.js'

const DAY_MS = 86_400_000
const ZONE = 'Europe/Berlin'
const site = await startSite(t)

/** Twelve users of a shop: all of them look, every third buys. */
async function fill(): Promise<void> {
  const now = Date.now()
  const events: object[] = []
  for (let i = 0; i < 12; i++) {
    const at = (days: number, minutes: number) => now - days * DAY_MS + minutes * 60_000
    const add = (event: string, timestamp: number, properties: object = {}) => {
      events.push({
        event,
        distinct_id: `user-${i}`,
        timestamp,
        properties: { country: i % 2 ? 'AT' : 'DE', ...properties },
      })
    }
    add('signed up', at(9 - (i % 3), 0), { plan: i % 4 ? 'free' : '<b>pro</b>' })
    add('looked', at(9 - (i % 3), 1))
    if (i % 2) add('looked', at(5, i))
    if (i % 3 === 0) add('bought', at(4, i), { price: 10 + i, note: '=1+1' })
  }
  const response = await site.call('POST', '/public/track/batch', { events })
  t.equal(response.statusCode, 200, response.body)
}

await site.call('PATCH', '/public/project', { timezone: ZONE })

type Row = (string | number | null)[]

/** The answer of the service to the same question. */
async function query(question: object): Promise<{ results: never }> {
  const response = await site.call('POST', '/public/query', { timezone: ZONE, ...question })
  t.equal(response.statusCode, 200, response.body)
  return response.json()
}

const shown = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 2 })
const format = (value: string | number | null) => (typeof value === 'number' ? shown.format(value) : (value ?? '–'))

/** The rows of a table, without the heading and the marks of open buckets. */
async function readRows(page: Page, title: string): Promise<string[][]> {
  const rows = page.getByRole('region', { name: `Table: ${title}` }).locator('tbody tr')
  return (await readCells(rows, 'innerText')).map((row) => row.map((text) => text.replace('*', '').trim()))
}

/** Waits until the page shows these numbers as a table. */
async function waitForTable(t: Test, page: Page, title: string, rows: Row[]): Promise<void> {
  t.ok(rows.length > 0 && rows.some((row) => row.some((value) => typeof value === 'number' && value > 0)))
  await page.getByRole('radio', { name: 'Table' }).check()
  const expected = JSON.stringify(rows.map((row) => row.map(format)))
  let last = ''
  await until(`the table ${expected}`, async () => {
    last = JSON.stringify(await readRows(page, title).catch(() => []))
    return last === expected
  }).catch((error) => t.fail(`${error.message}: ${last}`))
}

async function choose(page: Page, group: string, label: string, text: string): Promise<void> {
  const field = page
    .getByRole('group', { name: group, exact: true })
    .getByRole('combobox', { name: label, exact: true })
  await chooseIn(page, field, text)
}

async function chooseIn(page: Page, field: ReturnType<Page['getByRole']>, text: string): Promise<void> {
  await field.fill(text)
  await page.locator('[role="option"]:visible').filter({ hasText: text }).first().click()
}

/** The date in the browsers' time zone, some days from now. */
function formatDay(days: number): string {
  return new Intl.DateTimeFormat('en-CA', { timeZone: ZONE }).format(Date.now() + days * DAY_MS)
}

interface SeriesLine {
  total: number
  points: { at: string; value: number }[]
}

t.test('an empty project shows the welcome page until the first event arrives', async (t) => {
  const page = await site.visit(t, '#/explore')
  await page.getByRole('heading', { name: 'Send your first event' }).waitFor()
  await fill()
  await page.getByRole('heading', { name: 'Explore' }).waitFor()
})

t.test('a series built in the form matches the service, and its link reproduces it', async (t) => {
  const page = await site.visit(t, '#/explore')
  await choose(page, 'Series 1', 'Event', 'looked')
  const days = async (question: object) => (await query(question)).results as SeriesLine[]
  const values = (lines: SeriesLine[]) =>
    (lines[0]?.points ?? []).map((_, i) => lines.map(({ points }) => points[i]?.value ?? null))
  const withoutTimes = async () => (await readRows(page, 'Numbers')).map((row) => row.slice(1))
  const drawsLines = async (question: object) => {
    const lines = await days(question)
    const expected = [...values(lines), lines.map(({ total }) => total)].map((row) => row.map(format))
    t.ok(lines.some(({ total }) => total > 0))
    await page.getByRole('radio', { name: 'Table' }).check()
    await until(
      `${JSON.stringify(expected)}`,
      async () => JSON.stringify(await withoutTimes()) === JSON.stringify(expected),
    )
  }
  await page.getByRole('button', { name: '+ Series' }).click()
  await choose(page, 'Series 2', 'Event', 'bought')
  const whole = { kind: 'series', series: [{ event: 'looked' }, { event: 'bought' }] }
  await page
    .getByRole('group', { name: 'Series 2' })
    .getByRole('combobox', { name: 'Metric' })
    .selectOption('Sum of a property')
  await page.getByText('Choose a property that is a number.').waitFor()
  await drawsLines(whole)
  await choose(page, 'Series 2', 'Property', 'properties.price')
  const series = [{ event: 'looked' }, { event: 'bought', metric: 'sum', property: 'properties.price' }]
  await drawsLines({ kind: 'series', series })

  const filters = page.getByRole('group', { name: 'Filters of all events' })
  await filters.getByRole('button', { name: '+ Filter' }).click()
  await choose(page, 'Filter', 'Field', 'properties.country')
  await choose(page, 'Filter', 'Value', 'AT')
  await chooseIn(page, page.getByRole('combobox', { name: 'Breakdown', exact: true }), 'properties.country')
  await page.getByRole('combobox', { name: 'Interval' }).selectOption('weekly')
  const question = {
    kind: 'series',
    series,
    where: ['is', 'properties.country', ['AT']],
    breakdown: ['properties.country'],
    interval: 'week',
  }
  await drawsLines(question)
  const rows = await readRows(page, 'Numbers')

  const other = await site.visit(t, new URL(page.url()).hash)
  await until('the same', async () => JSON.stringify(await readRows(other, 'Numbers')) === JSON.stringify(rows))
  await other.getByRole('radio', { name: 'Lines' }).check()
  await other
    .getByRole('img', { name: /^Chart of/ })
    .locator('canvas')
    .waitFor()
})

t.test('an unknown event name causes a warning above the chart', async (t) => {
  const question = { kind: 'series', series: [{ event: 'lookd' }] }
  // On a slow machine, the first answer may not have warnings yet.
  await until('a warning', async () => 'warnings' in (await query(question)))
  const page = await site.visit(t, `#/explore?q=${encodeURIComponent(JSON.stringify(question))}`)
  const answer = page.getByRole('region', { name: 'Answer', exact: true })
  const warnings = answer.getByRole('status', { name: 'Warnings' })
  await warnings.getByText('No event is called “lookd”. Did you mean “looked”?').waitFor()
  await choose(page, 'Series 1', 'Event', 'looked')
  await until('no warning', async () => (await warnings.count()) === 0)
})

t.test('a funnel can be built in the form, and its steps moved and removed', async (t) => {
  const page = await site.visit(t, '#/explore')
  await page.getByRole('radio', { name: 'Funnel' }).first().check()
  await choose(page, 'Step 1', 'Event', 'looked')
  await choose(page, 'Step 2', 'Event', 'signed up')
  await page.getByRole('button', { name: '+ Step' }).click()
  await page.getByText('Choose an event.').first().waitFor()
  await choose(page, 'Step 3', 'Event', 'bought')
  await page.getByRole('button', { name: 'Move up step 2' }).click()
  await page.getByRole('combobox', { name: 'Unit' }).selectOption('weeks')
  const { results } = await query({
    kind: 'funnel',
    steps: [{ event: 'signed up' }, { event: 'looked' }, { event: 'bought' }],
    window: '7w',
  })
  const [{ steps }] = results as [{ steps: { users: number }[] }]
  t.strictSame(
    steps.map(({ users }) => users),
    [12, 12, 4],
  )
  await page.getByRole('region', { name: 'Step 3' }).getByRole('button', { name: /^4/ }).waitFor()
  await checkAccessibility(t, page, 'a funnel')
  await page
    .getByRole('region', { name: 'Step 3' })
    .getByRole('button', { name: /Dropped off before/ })
    .click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('8 users').waitFor()
  t.equal(await dialog.getByRole('link').count(), 8)
  await dialog.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('button', { name: 'Remove step 2' }).click()
  await page.getByRole('region', { name: 'Step 2' }).getByRole('button', { name: /^4/ }).waitFor()
})

t.test('a question is asked with the number that is shown, or not at all', async (t) => {
  const page = await site.visit(t, '#/explore')
  const asked: unknown[] = []
  await page.getByRole('radio', { name: 'Retention' }).check()
  await chooseIn(page, page.getByRole('combobox', { name: 'Start event', exact: true }), 'signed up')
  await page.getByRole('region', { name: 'Cohorts' }).getByRole('cell').first().waitFor()
  page.on('request', (request) => {
    if (request.url().endsWith('/public/query')) asked.push(request.postDataJSON().intervals)
  })
  const periods = page.getByLabel('Number of periods')
  await periods.fill('')
  await periods.pressSequentially('1,0')
  await page.getByText('Enter a whole number from 1 to 90, in digits only.').waitFor()
  await page.getByRole('region', { name: 'Cohorts' }).waitFor({ state: 'detached' })
  await page.getByRole('status').getByText('Correct the number that is marked first.').waitFor()
  t.ok(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled())
  t.equal(await page.getByRole('button', { name: /^Copy/ }).count(), 0, 'there is no question to copy')
  await periods.blur()
  t.equal(await periods.inputValue(), '1,0')
  await periods.fill('4')
  await page.getByRole('region', { name: 'Cohorts' }).getByRole('cell').first().waitFor()
  t.notOk(asked.includes(1), 'not with the digits before the comma')
  t.equal(asked.at(-1), 4)
})

t.test('a retention question can be built in the form', async (t) => {
  const page = await site.visit(t, '#/explore')
  await page.getByRole('radio', { name: 'Retention' }).check()
  await chooseIn(page, page.getByRole('combobox', { name: 'Start event', exact: true }), 'signed up')
  await chooseIn(page, page.getByRole('combobox', { name: 'Return event', exact: true }), 'looked')
  await page.getByLabel('Number of periods').fill('5')
  const { results } = await query({ kind: 'retention', start: 'signed up', return: 'looked', intervals: 5 })
  const cohorts = results as { size: number; cells: { users: number }[] }[]
  await page.getByRole('region', { name: 'Cohorts' }).getByRole('cell').first().waitFor()
  await checkAccessibility(t, page, 'cohorts')
  await page.getByRole('radio', { name: 'Table' }).check()
  // The last cohort is that of today, so each has begun one interval fewer.
  const hasBegun = (cohort: number, interval: number) => cohort + interval < cohorts.length
  const expected = JSON.stringify(
    cohorts.map(({ size, cells }, i) => [
      format(size),
      ...cells.map(({ users }, interval) => (hasBegun(i, interval) ? format(users) : '')),
    ]),
  )
  await until(expected, async () => {
    const rows = await readRows(page, 'Cohorts')
    return JSON.stringify(rows.slice(0, -1).map((row) => row.slice(1))) === expected
  })
})

t.test('paths can be built in the form, in both directions', async (t) => {
  const page = await site.visit(t, '#/explore')
  await page.getByRole('radio', { name: 'Paths' }).check()
  await chooseIn(page, page.getByRole('combobox', { name: 'Event', exact: true }), 'signed up')
  await page.getByRole('button', { name: 'signed up to looked: 12 users' }).click()
  await page.getByRole('dialog').getByText('12 users', { exact: true }).waitFor()
  await page.keyboard.press('Escape')
  await checkAccessibility(t, page, 'a flow')
  const rows = async (question: object) => {
    const { nodes } = (await query({ kind: 'paths', ...question })).results as {
      nodes: { step: number; event: string; users: number }[]
    }
    return nodes.map(({ step, event, users }) => [step, event, users])
  }
  await waitForTable(t, page, 'Events', await rows({ start: 'signed up' }))
  await page.getByRole('combobox', { name: 'Direction' }).selectOption('Before this event')
  await chooseIn(page, page.getByRole('combobox', { name: 'Event', exact: true }), 'looked')
  await waitForTable(t, page, 'Events', await rows({ end: 'looked' }))
})

t.test('a drill-down lists users page by page, with links to them', async (t) => {
  const many = Array.from({ length: 60 }, (_, i) => ({ event: 'many', distinct_id: `m${String(i).padStart(2, '0')}` }))
  await site.call('POST', '/public/track/batch', { events: many })
  const question = { kind: 'series', series: [{ event: 'many', metric: 'users' }], interval: 'none', timezone: ZONE }
  const page = await site.visit(t, `#/explore?q=${encodeURIComponent(JSON.stringify(question))}&as=number`)
  await page.getByRole('button', { name: /^60: many/ }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('60 users').waitFor()
  const names = async () => await dialog.getByRole('listitem').allInnerTexts()
  const wanted = many.map(({ distinct_id }) => distinct_id)
  t.strictSame(await names(), wanted.slice(0, 50))
  t.ok(await dialog.getByRole('button', { name: 'Previous' }).isDisabled())
  await dialog.getByRole('button', { name: 'Next' }).click()
  await dialog.getByText('Page 2 of 2').waitFor()
  await until('the last ones', async () => (await names()).join() === wanted.slice(50).join())
  t.ok(await dialog.getByRole('button', { name: 'Next' }).isDisabled())
  t.equal(await download(page, 'CSV of users').then((text) => text.split('\r\n').length), 1 + 60 + 1)
  await dialog.getByRole('link', { name: 'm55' }).click()
  await page.waitForURL(/#\/users\/m55$/)
})

t.test('the chart shows numbers at the pointer, and a click opens the drill-down', async (t) => {
  const question = { kind: 'series', series: [{ event: 'bought' }, { event: 'looked' }], timezone: ZONE }
  const page = await site.visit(t, `#/explore?q=${encodeURIComponent(JSON.stringify(question))}&range=7d`)
  const { results } = await query({ ...question, from: formatDay(-6), to: formatDay(1) })
  const [bought, looked] = results as SeriesLine[]
  const index = bought?.points.findIndex(({ value }) => value > 0) ?? -1
  const canvas = page.locator('.u-over')
  const box = await canvas.boundingBox()
  if (!box) return t.fail('there is no chart')
  const x = (box.width * index) / ((bought?.points.length ?? 0) - 1)
  await canvas.hover({ position: { x, y: 9 } })
  const tip = page.locator('[data-tooltip]')
  await tip.waitFor()
  t.match(
    await tip.textContent(),
    new RegExp(`bought${bought?.points[index]?.value}looked${looked?.points[index]?.value}`),
  )
  await canvas.click({ position: { x, y: 9 } })
  await page
    .getByRole('dialog', { name: /^bought, / })
    .getByText('4 users')
    .waitFor()
})

t.test('the active option of a combobox is scrolled into view', async (t) => {
  const names = Array.from({ length: 40 }, (_, i) => ({ event: `option ${i}`, distinct_id: 'ada' }))
  await site.call('POST', '/public/track/batch', { events: names })
  const page = await site.visit(t, '#/explore')
  const field = page.getByRole('group', { name: 'Series 1' }).getByRole('combobox', { name: 'Event', exact: true })
  await field.fill('option')
  await page.getByRole('option', { name: 'option 0' }).waitFor()
  for (let i = 0; i < 30; i++) await field.press('ArrowDown')
  const isInSight = `(() => {
    const option = document.querySelector('[role="option"][aria-selected="true"]').getBoundingClientRect()
    const list = document.querySelector('[role="listbox"]:not([hidden])').getBoundingClientRect()
    return option.top >= list.top && option.bottom <= list.bottom
  })()`
  t.ok(await page.evaluate(isInSight))
})
