import type { Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, startSite } from './page.js'

const site = await startSite(t)

interface Question {
  series: { event: string; metric?: string; property?: string }[]
  breakdown?: unknown[]
  where?: unknown
}

t.before(async () => {
  const now = Date.now()
  const events = [
    ['purchased', { price: 9.5, plan: 'pro', utm: { source: 'mail', campaign: { name: 'spring' } } }],
    ['purchased', { price: 5, plan: 'free' }],
    ['Repurchased', { price: 1 }],
    ['signed up', { plan: 'free', referrer: 'x', age: '36' }],
    ['viewed', { 'page.url': '/' }],
    ['購入した', { price: 3 }],
    ['تم الشراء', { price: 4 }],
  ].map(([event, properties]) => ({ event, distinct_id: 'ada', timestamp: now - 60_000, properties }))
  const response = await site.call('POST', '/public/track/batch', { events })
  t.equal(response.statusCode, 200, response.body)
  await site.call('POST', '/public/users/identify', {
    distinct_id: 'ada',
    properties: { city: 'Wien', address: { zip: 1 } },
  })
})

const linkTo = (question: object) => `#/explore?${new URLSearchParams({ q: JSON.stringify(question) })}`
const series = (event: string, more: object = {}) => ({ kind: 'series', series: [{ event, ...more }] })

/** The question in the page's link. */
function readQuestion(page: Page): Question {
  return JSON.parse(new URLSearchParams(new URL(page.url()).hash.split('?')[1]).get('q') ?? '{"series":[]}')
}

const findField = (page: Page, name: string) => page.getByRole('combobox', { name, exact: true })
const findOption = (page: Page, name: string | RegExp) => page.getByRole('option', { name })

/** Waits until the link asks for an event. */
async function waitForEvent(page: Page, event: string): Promise<void> {
  await until(`a question about ${event}`, () => readQuestion(page).series[0]?.event === event)
}

/** The option that a screen reader reads. */
async function readActive(field: Locator): Promise<string> {
  return await field.evaluate((input) => {
    const id = input.getAttribute('aria-activedescendant')
    const option = id === null ? null : input.ownerDocument.getElementById(id)
    return option?.getAttribute('aria-selected') === 'true' ? (option.textContent ?? '') : ''
  })
}

/** A page in a browser of another language and size, signed in. */
async function visitAs(t: Test, link: string, look: { locale: string; width: number }): Promise<Page> {
  const page = await site.visit(t, link)
  const context = await page
    .context()
    .browser()
    ?.newContext({
      locale: look.locale,
      viewport: { width: look.width, height: 844 },
      hasTouch: true,
      storageState: await page.context().storageState(),
    })
  if (!context) throw new Error('the browser is not connected')
  t.teardown(() => context.close())
  const other = await context.newPage()
  await other.goto(`${site.url}/${link}`)
  return other
}

t.test('Enter, or leaving the field, takes the best match of what was typed, however fast', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  const field = findField(page, 'Event')
  for (const [typed, event] of [
    ['signed_up', 'signed up'],
    ['ｐｕｒｃｈ', 'purchased'],
    ['الشراء', 'تم الشراء'],
  ] as const) {
    await field.fill(typed)
    await field.press('Enter')
    await until(typed, async () => (await field.inputValue()) === event)
    await waitForEvent(page, event)
  }
  t.equal(await page.getByRole('option').filter({ visible: true }).count(), 0)
  await field.fill('purch')
  await page.keyboard.press('Tab')
  await waitForEvent(page, 'purchased')
})

t.test('a screen reader hears the marked option, and arrows move it', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  const field = findField(page, 'Event')
  await field.fill('purch')
  await until('the best match', async () => (await readActive(field)).startsWith('purchased'))
  t.equal(await field.getAttribute('aria-expanded'), 'true')
  await field.press('ArrowDown')
  t.match(await readActive(field), /^Repurchased/)
  await field.press('ArrowDown')
  t.equal(await readActive(field), 'Use “purch”')
  await checkAccessibility(t, page, 'the list')
  await field.press('ArrowUp')
  await field.press('Enter')
  await waitForEvent(page, 'Repurchased')
  t.equal(await field.getAttribute('aria-expanded'), 'false')
})

t.test('a click selects the text of a field, and Escape restores it', async (t) => {
  const page = await site.visit(t, linkTo(series('purchased')))
  const field = findField(page, 'Event')
  const readSelection = () =>
    page.evaluate('[document.activeElement.selectionStart, document.activeElement.selectionEnd]')
  await field.click()
  t.strictSame(await readSelection(), [0, 9])
  await page.keyboard.type('sig')
  await findOption(page, /^signed up/).waitFor()
  await page.keyboard.press('Escape')
  t.equal(await field.inputValue(), 'purchased')
  t.equal(await field.getAttribute('aria-expanded'), 'false')
  await field.click()
  t.strictSame(await readSelection(), [0, 9], 'again, while it has the focus')
  await findOption(page, /^signed up/).click()
  await waitForEvent(page, 'signed up')
})

t.test('Enter that ends a composition does not choose', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  const field = findField(page, 'Event')
  await field.click()
  const browser = await page.context().newCDPSession(page)
  const compose = (text: string) =>
    browser.send('Input.imeSetComposition', { text, selectionStart: text.length, selectionEnd: text.length })
  await compose('こうにゅう')
  await compose('購入')
  await findOption(page, /^購入した/).waitFor()
  for (const type of ['rawKeyDown', 'keyUp'] as const) {
    await browser.send('Input.dispatchKeyEvent', { type, key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 229 })
  }
  await browser.send('Input.insertText', { text: '購入' })
  await until('the composed text', async () => (await field.inputValue()) === '購入')
  t.equal(await field.getAttribute('aria-expanded'), 'true')
  t.equal(readQuestion(page).series[0]?.event, 'viewed')
  await field.press('Enter')
  await waitForEvent(page, '購入した')
})

t.test('suggestions that could not be loaded are no empty list', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  const names = '**/public/schema/events*'
  await page.route(names, (route) => route.fulfill({ status: 503, json: { status: 0, error: 'Busy.', code: 'busy' } }))
  // Names that were loaded before are not loaded again.
  await page.reload()
  const field = findField(page, 'Event')
  await field.fill('purch')
  await page.getByText('Suggestions could not be loaded: Busy.').waitFor()
  await field.press('Enter')
  t.equal(readQuestion(page).series[0]?.event, 'viewed', 'a part of a name is not a name')
  // The failed load is repeated, which may take the highlight away.
  await until('the name itself', async () => {
    await field.press('ArrowDown')
    return (await readActive(field)) === 'Use “purch”'
  })
  await field.press('Enter')
  await waitForEvent(page, 'purch')
  await page.unroute(names)
  await field.fill('purchas')
  await field.press('Enter')
  await waitForEvent(page, 'purchased')
  t.equal(await page.getByText('Suggestions could not be loaded').count(), 0)
})

t.test('an unknown name is questioned, and corrected with a button', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  const field = findField(page, 'Event')
  const warnings = page.getByRole('status', { name: 'Warnings' })
  await field.fill('zzz')
  await findOption(page, 'Use “zzz”').waitFor()
  await field.press('Enter')
  await warnings.getByText('No event is called “zzz”.').waitFor()
  t.equal(await warnings.getByRole('button').count(), 0)
  await field.fill('purchasd')
  await field.press('Enter')
  await warnings.getByText('No event is called “purchasd”. Did you mean “purchased”?').waitFor()
  t.equal(await field.getAttribute('aria-invalid'), 'true')
  await page.getByText('Check this name.').waitFor()
  await checkAccessibility(t, page, 'a warning')
  await warnings.getByRole('button', { name: 'Use “purchased”' }).click()
  await waitForEvent(page, 'purchased')
  await until('no warning', async () => (await warnings.count()) === 0)
  t.equal(await field.getAttribute('aria-invalid'), 'false')

  const where = [
    'and',
    [
      ['is', 'properties.plan', ['Pro']],
      ['set', 'properties.utm.sorce'],
    ],
  ]
  const other = await site.visit(
    t,
    linkTo({ kind: 'funnel', steps: [{ event: 'purchased', where }, { event: 'viewed' }] }),
  )
  const others = other.getByRole('status', { name: 'Warnings' })
  await others.getByRole('button', { name: 'Use “pro”' }).click()
  await until('the value', () => decodeURIComponent(other.url()).includes('["is","properties.plan",["pro"]]'))
  await others.getByRole('button', { name: 'Use “utm.source”' }).click()
  await until('the property', () => decodeURIComponent(other.url()).includes('["set","properties.utm.source"]'))
  await until('no warning', async () => (await others.count()) === 0)
})

t.test('names within objects are offered, and found by any part', async (t) => {
  const page = await site.visit(t, linkTo(series('purchased')))
  const field = findField(page, 'Breakdown')
  for (const [typed, chosen] of [
    ['sour', 'properties.utm.source'],
    ['spring', null],
    ['campaign name', 'properties.utm.campaign.name'],
    ['pla', 'properties.plan'],
    ['zip', 'user.address.zip'],
  ] as const) {
    await field.fill(typed)
    if (chosen === null) {
      await findOption(page, `Use “${typed}”`).waitFor()
      t.equal(await page.getByRole('option').filter({ visible: true }).count(), 1)
      await field.press('Escape')
      continue
    }
    await field.press('Enter')
    await until(chosen, () => readQuestion(page).breakdown?.[0] === chosen)
    await field.fill('')
    await field.press('Enter')
    await until('no breakdown', () => readQuestion(page).breakdown === undefined)
  }
  await field.click()
  await findOption(page, /^properties\.utm object/).waitFor()
  const names = await page.getByRole('option').filter({ visible: true }).locator('bdi').allInnerTexts()
  t.strictSame(
    names.filter((name) => name.startsWith('properties.utm')),
    ['properties.utm', 'properties.utm.campaign', 'properties.utm.campaign.name', 'properties.utm.source'],
  )
})

t.test('unsuitable properties are shown last with their type, and are not chosen', async (t) => {
  const page = await site.visit(t, linkTo(series('purchased', { metric: 'sum' })))
  const field = findField(page, 'Property')
  await field.click()
  await findOption(page, /^properties\.price number/).waitFor()
  const rows = await page.getByRole('option').filter({ visible: true }).all()
  const misfits = await Promise.all(rows.map(async (row) => (await row.getAttribute('aria-disabled')) === 'true'))
  t.ok(misfits.indexOf(true) > 0)
  t.notOk(misfits.slice(misfits.indexOf(true)).includes(false), 'unsuitable ones are last')
  await findOption(page, 'properties.plan text, not a number').waitFor()
  await findOption(page, 'properties.referrer text, not in purchased').waitFor()
  await findOption(page, 'properties.utm object, not a number').waitFor()
  await findOption(page, 'properties.plan text, not a number').click({ force: true })
  t.equal(await field.inputValue(), '')
  await field.fill('plan')
  await findOption(page, 'Use “plan”').waitFor()
  await field.press('Enter')
  t.equal(await field.inputValue(), 'plan', 'Enter takes nothing')
  t.equal(readQuestion(page).series[0]?.property, undefined)
  await findOption(page, 'Use “plan”').click()
  const warnings = page.getByRole('status', { name: 'Warnings' })
  await warnings.getByText('No event called “purchased” has a number in “plan”: its values are strings.').waitFor()
  await field.fill('pri')
  await field.press('Enter')
  await until('the price', () => readQuestion(page).series[0]?.property === 'properties.price')
})

t.test('a value is completed, but not a number or an id, and not a part of a value', async (t) => {
  const page = await site.visit(t, linkTo({ ...series('*'), where: ['is', 'properties.plan', []] }))
  const readFilter = () => JSON.stringify(readQuestion(page).where)
  const field = findField(page, 'Value')
  await field.fill('PR')
  await field.press('Enter')
  await until('the value', () => readFilter() === '["is","properties.plan",["pro"]]')
  await page.getByRole('button', { name: 'Remove pro' }).press('Enter')
  await until('no value', () => readFilter() === '["is","properties.plan",[]]')
  await until('the focus on the list', () => page.evaluate<boolean>('document.activeElement.ariaLabel === "Values"'))
  for (const [filter, typed, result] of [
    [['is', 'properties.age', []], '3', '["is","properties.age",[3]]'],
    [['is', 'distinct_id', []], 'ad', '["is","distinct_id",["ad"]]'],
    [['is', 'distinct_id', []], '42', '["is","distinct_id",["42"]]'],
    [['contains', 'properties.plan', []], 'pr', '["contains","properties.plan",["pr"]]'],
  ] as const) {
    await page.goto(`${site.url}/${linkTo({ ...series('*'), where: filter })}`)
    await field.fill(typed)
    await field.press('Enter')
    await until(result, () => readFilter() === result)
  }
})

t.test('removing an item keeps the focus of the keyboard in its list', async (t) => {
  const where = [
    'and',
    [
      ['set', 'properties.plan'],
      ['set', 'properties.price'],
    ],
  ]
  const page = await site.visit(
    t,
    linkTo({ kind: 'series', series: [{ event: ['viewed', 'purchased'] }, { event: '*' }], where }),
  )
  const readFocus = () => page.evaluate('document.activeElement.ariaLabel ?? document.activeElement.textContent')
  for (const [remove, next] of [
    ['Remove this filter', 'Remove this filter'],
    ['Remove this filter', '+ Filter'],
    ['Remove viewed', 'or another event'],
    ['Remove series 1', '+ Filter'],
  ] as const) {
    await page.getByRole('button', { name: remove }).first().press('Enter')
    await until(`the focus on ${next} after ${remove}`, async () => (await readFocus()) === next)
  }
  const steps = ['viewed', 'purchased', '*'].map((event) => ({ event }))
  await page.goto(`${site.url}/${linkTo({ kind: 'funnel', steps })}`)
  await page.getByRole('button', { name: 'Remove step 1' }).press('Enter')
  // The first step cannot be moved up.
  await until('the focus on the next step', async () => (await readFocus()) === 'Move down step 1')
})

t.test('adding an item moves the focus of the keyboard into it', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  const readFocus = () =>
    page.evaluate('document.activeElement.labels?.[0]?.textContent ?? document.activeElement.ariaLabel')
  const filters = page.getByRole('group', { name: 'Filters of all events' })
  for (const count of [1, 2]) {
    await filters.getByRole('button', { name: '+ Filter' }).press('Enter')
    const field = filters.getByRole('combobox', { name: 'Field' }).nth(count - 1)
    await until(`the focus in filter ${count}`, () => field.evaluate((one) => one.matches(':focus')))
  }
  for (const next of ['Comparison', 'Value', 'Remove this filter']) {
    await page.keyboard.press('Tab')
    t.equal(await readFocus(), next)
  }
  for (const [add, label] of [
    ['+ Group', 'Field'],
    ['or another event', 'Event, or'],
    ['+ Series', 'Event'],
  ] as const) {
    await page.getByRole('button', { name: add }).first().press('Enter')
    await until(`the focus after ${add}`, async () => (await readFocus()) === label)
  }
})

t.test('sessions are found by the words for them', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  const field = findField(page, 'Event')
  for (const text of ['Sessions', 'sessions', 'visit', 'visits']) {
    await field.fill(text)
    await until(`sessions for ${text}`, async () => (await readActive(field)).startsWith('$session'))
  }
  await field.press('Enter')
  await waitForEvent(page, '$session')
})

t.test('a breakdown of nothing but unset values says so', async (t) => {
  const page = await site.visit(
    t,
    linkTo({ ...series('purchased'), where: ['set', 'properties.utm'], breakdown: ['user.address'] }),
  )
  await findField(page, 'Breakdown').waitFor()
  t.equal(await page.getByRole('status', { name: 'Warnings' }).count(), 0)
  const other = await site.visit(
    t,
    linkTo({ ...series('purchased'), where: ['is', 'properties.plan', ['free']], breakdown: ['properties.utm'] }),
  )
  await other.getByRole('status', { name: 'Warnings' }).getByText('No event here has properties.utm.').waitFor()
})

t.test('a time zone is chosen from the list', async (t) => {
  const page = await site.visit(t, linkTo(series('viewed')))
  await page.getByText(', time zone and weeks').locator('..').click()
  const field = findField(page, 'Time zone')
  await field.fill('Nowhere')
  await page.keyboard.press('Tab')
  await until('the zone before', async () => (await field.inputValue()) !== 'Nowhere')
  await field.fill('tokyo')
  await field.press('Enter')
  await until('the zone', async () => (await field.inputValue()) === 'Asia/Tokyo')
})

t.test('on a phone, in Arabic', async (t) => {
  const [locale, width] = ['ar-EG', 390]
  const page = await visitAs(t, linkTo(series('viewed')), { locale, width })
  const field = findField(page, 'Event')
  await field.waitFor()
  await field.tap()
  await findOption(page, /^purchased/).waitFor()
  const box = await page.getByRole('listbox', { name: 'Event' }).boundingBox()
  t.ok(box && box.x >= 0 && box.x + box.width <= width, 'the list is within the window')
  await page.keyboard.insertText('purch')
  await until('the best match', async () => (await readActive(field)).startsWith('purchased'))
  await findOption(page, /^Repurchased/).tap()
  await waitForEvent(page, 'Repurchased')
  const overhang = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'
  t.equal(await page.evaluate(overhang), 0)
})

t.test('only texts are suggested for a comparison of texts', async (t) => {
  const events = [7, 'x7'].map((code) => ({ event: 'coded', distinct_id: 'ada', properties: { code } }))
  await site.call('POST', '/public/track/batch', { events })
  const page = await site.visit(t, linkTo(series('coded', { where: ['is', 'properties.code', []] })))
  const options = page.getByRole('listbox').getByRole('option')
  const readValues = async () => (await options.allTextContents()).join()
  const field = findField(page, 'Value')
  await field.click()
  await until('the values of any type', async () => /^(?:71,x71|x71,71)$/.test(await readValues()))
  await field.press('Escape')
  await page.getByLabel('Comparison').selectOption('contains')
  await field.click()
  await until('the texts', async () => (await readValues()) === 'x71')
})
