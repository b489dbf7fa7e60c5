import type { Page } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, startSite } from './page.js'

/** The first tasks of people who come from another product, and where they got stuck. */

const HOUR_MS = 3_600_000
const site = await startSite(t)

const COUNTRIES = ['AT', 'DE', 'FR', 'GB', 'IT', 'US']
const users = Array.from({ length: 60 }, (_, i) => `user-${String(i).padStart(2, '0')}`)
const now = Date.now()
const events = users.flatMap((distinct_id, i) => {
  const country = COUNTRIES[i % COUNTRIES.length]
  const at = (minutes: number) => now - 24 * HOUR_MS - i * 60_000 + minutes * 60_000
  return [
    { event: 'searched', distinct_id, timestamp: at(0), properties: { country } },
    { event: 'added to cart', distinct_id, timestamp: at(1), properties: { country, price: 10_000.25 * (i + 1) } },
    ...(i < 5 ? [{ event: 'purchased', distinct_id, timestamp: at(2), properties: { country, price: i + 1 } }] : []),
  ]
})
const sent = await site.call('POST', '/public/track/batch', { events })
if (sent.statusCode !== 200) throw new Error(sent.body)
await site.call('POST', '/public/users/profile', {
  distinct_id: 'user-07',
  operations: { $set: { name: 'Ada', email: 'ada@example.com' } },
})

const CART_FUNNEL = { kind: 'funnel', steps: [{ event: 'added to cart' }, { event: 'purchased' }], window: '1h' }
const SERIES = { kind: 'series', interval: 'none', breakdown: ['properties.country'], limit: 3 }
const REVENUE = {
  ...SERIES,
  series: [{ event: 'added to cart', metric: 'sum', property: 'properties.price' }],
}

function buildLink(question: object, more = ''): string {
  return `#/explore?q=${encodeURIComponent(JSON.stringify({ timezone: 'UTC', ...question }))}${more}`
}

t.test('users who dropped off are listed by name, and are still listed after one was opened', async (t) => {
  const page = await site.visit(t, buildLink(CART_FUNNEL))
  await page.getByRole('button', { name: /^55: Dropped off/ }).click()
  const dialog = page.getByRole('dialog')
  const named = dialog.getByRole('listitem').filter({ hasText: 'user-07' })
  await named.getByText('Ada · ada@example.com').waitFor()
  await checkAccessibility(t, page, 'the users who dropped off')
  const rows = (await download(page, 'CSV of users')).replace('\uFEFF', '').trim().split('\r\n')
  t.equal(rows.length, 1 + 55)
  t.equal(rows[0], 'User,Name,Email')
  t.ok(rows.includes('user-07,Ada,ada@example.com'))
  t.ok(rows.includes('user-08,,'), 'a user without a profile')

  await dialog.getByRole('button', { name: 'Next' }).click()
  await dialog.getByRole('link', { name: 'user-59' }).click()
  await page.getByRole('heading', { name: 'user-59' }).waitFor()
  await page.goBack()
  await dialog.getByRole('link', { name: 'user-59' }).waitFor()
  await dialog.getByText('Page 2 of 2').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await page.getByRole('link', { name: 'Users' }).click()
  await page.getByRole('heading', { name: 'Users' }).waitFor()
  await page.goBack()
  await page.getByRole('button', { name: /^55: Dropped off/ }).waitFor()
  t.equal(await dialog.count(), 0, 'the closed one stays closed')
})

t.test('bars have the same scale, and their numbers stay within the card', async (t) => {
  const cards = [{ id: 'r', name: 'Revenue', question: REVENUE, width: 2, display: { as: 'bar' } }]
  await site.call('PUT', '/public/boards/bars', { name: 'Bars', cards, display: { range: '30d', timezone: 'UTC' } })
  const page = await site.visit(t, '#/board/bars')
  const answer = page.getByRole('region', { name: 'Answer of Revenue' })
  await answer.getByText('Other').waitFor()
  const tracks = answer.locator('li > [aria-hidden]')
  const widths = await tracks.evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().width)))
  t.equal(widths.length, 4)
  t.equal(new Set(widths).size, 1, `all bars have the same space: ${widths}`)
  const overhang = await answer.evaluate((region) => region.scrollWidth - region.clientWidth)
  t.equal(overhang, 0)
})

t.test('cards with charts do not scroll', async (t) => {
  const question = { kind: 'series', series: [{ event: '*' }], breakdown: ['properties.country'], interval: 'hour' }
  const cards = [{ id: 'c', name: 'Countries', question, width: 2, display: { as: 'area' } }]
  await site.call('PUT', '/public/boards/chart', { name: 'Chart', cards, display: { range: '7d', timezone: 'UTC' } })
  const page = await site.visit(t, '#/board/chart')
  const answer = page.getByRole('region', { name: 'Answer of Countries' })
  await answer.getByRole('button', { name: 'FR' }).waitFor()
  const hidden = await answer.evaluate((region) => region.scrollHeight - region.clientHeight)
  t.equal(hidden, 0)
})

t.test('fields over the page close with Escape and with a click elsewhere', async (t) => {
  const page = await site.visit(t, '#/overview')
  const popovers = [
    { link: '#/overview', summary: page.locator('summary', { hasText: 'Filter' }) },
    { link: '#/overview', summary: page.locator('summary', { hasText: 'time zone and weeks' }) },
    { link: '#/users', summary: page.locator('summary', { hasText: 'Columns' }) },
  ]
  for (const { link, summary } of popovers) {
    await page.goto(`${site.url}/${link}`)
    const isOpen = async () => await summary.evaluate((element) => element.parentElement?.hasAttribute('open'))
    await summary.click()
    t.ok(await isOpen())
    await page.keyboard.press('Escape')
    t.notOk(await isOpen(), `${link}: Escape`)
    t.ok(await summary.evaluate((element) => element === element.ownerDocument.activeElement), 'keeps the focus')
    await summary.click()
    t.ok(await isOpen())
    await page.getByRole('heading', { level: 1 }).click()
    t.notOk(await isOpen(), `${link}: a click elsewhere`)
  }
  await page.goto(`${site.url}/#/overview`)
  const summary = page.locator('summary', { hasText: 'time zone and weeks' })
  await summary.click()
  const zone = page.getByRole('combobox', { name: 'Time zone' })
  await zone.click()
  await zone.fill('vienna')
  await zone.press('Escape')
  t.ok(await zone.isVisible(), 'the first Escape is for the list of the field')
  await zone.press('Escape')
  t.notOk(await zone.isVisible())
})

t.test('a card and a saved question get a name without typing one, a board has a link, and selects fit', async (t) => {
  const page = await site.visit(t, '#/explore')
  const dialog = page.getByRole('dialog')
  const names: [question: object, name: string][] = [
    [REVENUE, 'added to cart (sum of price) by country'],
    [CART_FUNNEL, 'added to cart → purchased'],
    [{ kind: 'retention', start: 'searched', return: '*', unit: 'week' }, 'Retention after searched'],
    [{ kind: 'paths', end: 'purchased' }, 'Paths to purchased'],
  ]
  for (const [question, name] of names) {
    await page.goto(`${site.url}/${buildLink(question)}`)
    await page.getByText('Answered in').waitFor()
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    t.equal(await dialog.getByLabel('Name', { exact: true }).inputValue(), name)
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 900 })
      t.strictSame(await findTruncated(page), [], `selects of ${name} at ${width} px`)
    }
    // A card has the name that the question would have.
    if (question !== REVENUE) continue
    await page.getByRole('button', { name: 'Add to board' }).click()
    const title = dialog.getByLabel('Title of the card')
    t.equal(await title.inputValue(), name)
    await dialog.getByLabel('Board', { exact: true }).selectOption('A new board')
    await dialog.getByLabel('Name of the new board').fill(name)
    await dialog.getByRole('button', { name: 'Add', exact: true }).click()
    await dialog.getByText('The question is on the board').waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
  }
  await page.goto(`${site.url}/#/overview?range=7d`)
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.getByLabel('Date range').selectOption('Last month')
  await page.waitForURL(/range=last_month/)
  await page.getByRole('button', { name: 'Copy link' }).click()
  await page.getByText('Copied').waitFor()
  t.equal(await page.evaluate<string>('navigator.clipboard.readText()'), page.url())
})

t.test('the raw events of a name can be downloaded', async (t) => {
  const page = await site.visit(t, '#/data/events/purchased')
  await page.getByRole('button', { name: 'Export events…' }).click()
  const dialog = page.getByRole('dialog')
  await checkAccessibility(t, page, 'an export')
  const save = async () => {
    const waiting = page.waitForEvent('download')
    await dialog.getByRole('link', { name: 'Download' }).click()
    const file = await waiting
    const lines: string[] = []
    for await (const chunk of await file.createReadStream()) lines.push(String(chunk))
    return { name: file.suggestedFilename(), lines: lines.join('').trim().split('\n') }
  }
  const csv = await save()
  t.equal(csv.name, 'events.csv')
  t.equal(csv.lines.length, 1 + 5)
  await dialog.getByLabel('Format').selectOption('JSON lines')
  const ndjson = await save()
  t.equal(ndjson.name, 'events.ndjson')
  t.strictSame(ndjson.lines.map((line) => JSON.parse(line).distinct_id).sort(), users.slice(0, 5))
  await dialog.getByLabel('Date range').selectOption('Last month')
  const [from, to] = [new Date(now), new Date(now)].map(
    (day) => new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth())),
  )
  const href = (await dialog.getByRole('link', { name: 'Download' }).getAttribute('href')) ?? ''
  const query = new URL(href, site.url).searchParams
  t.ok(Number(query.get('to')) <= Number(to), 'ends before this month')
  t.ok(Number(query.get('from')) < Number(from) - 27 * 24 * HOUR_MS)
  await page.route('**/public/query', () => undefined)
  await dialog.getByLabel('Date range').selectOption('All time')
  const link = dialog.getByRole('link', { name: 'Download' })
  await until('no bounds', async () => !/[?&](?:from|to)=/.test((await link.getAttribute('href')) ?? 'from='))
})

/** Runs in the page. An arrow takes 18 px of a select. */
const LIST_TRUNCATED = `[...document.querySelectorAll('main select')].flatMap((select) => {
  const style = getComputedStyle(select)
  const context = document.createElement('canvas').getContext('2d')
  context.font = style.font
  const room = select.clientWidth - Number.parseFloat(style.paddingLeft) - 18
  return [...select.options].map(({ text }) => text).filter((text) => context.measureText(text).width > room)
})`

/** The options of selects that are wider than the select. */
async function findTruncated(page: Page): Promise<string[]> {
  return await page.evaluate<string[]>(LIST_TRUNCATED)
}

t.test('paths explain their numbers, and show where nothing follows', async (t) => {
  const page = await site.visit(t, buildLink({ kind: 'paths', start: 'purchased', window: '30m' }))
  await page.getByText('Nobody did anything else in the 30 minutes after “purchased”.').waitFor()
  await page.goto(`${site.url}/${buildLink({ kind: 'paths', end: 'purchased' })}`)
  await page.getByText('Numbers are users.').waitFor()
})

t.test('cohorts say which week is the first', async (t) => {
  const page = await site.visit(t, buildLink({ kind: 'retention', start: 'searched', return: '*', unit: 'week' }))
  await page.getByText('Week 0 is the week in which a user started, Week 1 the week after it.').waitFor()
  await page.getByLabel('Periods', { exact: true }).selectOption('rolling from each user’s start')
  await until('the other sentence', async () =>
    /Week 0 is the first 7 days after a user’s start, Week 1 the 7 days after those\./.test(
      (await page.getByRole('region', { name: 'Cohorts' }).textContent()) ?? '',
    ),
  )
})
