import t from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, startSite } from './page.js'

const site = await startSite(t)
const FORMULA = '=HYPERLINK("http://example.com")'
const HTML = '<img src=x onerror="document.title=1">'

const response = await site.call('POST', '/public/track/batch', {
  events: [
    { event: 'a', distinct_id: 'ada', properties: { of: FORMULA } },
    { event: 'a', distinct_id: 'ada', properties: { of: FORMULA } },
    { event: 'a', distinct_id: 'grace', properties: { of: HTML, n: 5 } },
    { event: HTML, distinct_id: 'grace', properties: { of: '5' } },
  ],
})
t.equal(response.statusCode, 200)

function buildLink(question: object, more = ''): string {
  return `#/explore?q=${encodeURIComponent(JSON.stringify(question))}${more}`
}

t.test('hostile values are harmless on the page, in CSV and in the curl command', async (t) => {
  const question = { kind: 'series', series: [{ event: '*' }], breakdown: ['properties.of'], interval: 'none' }
  const page = await site.visit(t, buildLink(question))
  await page.getByText(HTML).first().waitFor()
  t.equal(await page.title(), 'Explore – Tallyhouse')
  const csv = await download(page, 'Download CSV')
  t.match(csv, `"'=HYPERLINK(""http://example.com"")",2\r\n`)
  t.match(csv, `"<img src=x onerror=""document.title=1"">",1\r\n`)
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await page.getByRole('button', { name: 'Copy as curl' }).click()
  await page.getByText('Copied').waitFor()
  const curl = await page.evaluate<string>('navigator.clipboard.readText()')
  t.match(curl, /^curl .*"x-api-key: \$KEY" http:\/\/[^ ]+\/public\/query -d '\{"kind":"series"/)
  await page.getByRole('radio', { name: 'Table' }).check()
  await page.getByRole('button', { name: /^2:/ }).first().click()
  await page.getByRole('dialog').getByText('1 user', { exact: true }).waitFor()
})

t.test('bars of negative totals extend to the left of zero', async (t) => {
  const key = await site.addKey('secret', 'balances')
  const amounts = { loss: -30, gain: 10, nothing: 0 }
  const events = Object.entries(amounts).map(([of, amount]) => {
    return { event: 'booked', distinct_id: 'ada', properties: { of, amount } }
  })
  await site.call('POST', '/public/track/batch', { events }, { 'x-api-key': key })
  const series = [{ event: 'booked', metric: 'sum', property: 'properties.amount' }]
  const question = { kind: 'series', series, breakdown: ['properties.of'], interval: 'none' }
  const page = await site.visit(t, buildLink(question), key)
  const answer = page.getByRole('region', { name: 'Answer', exact: true })
  const measureBar = async (name: string) => {
    const bar = answer.getByRole('listitem').filter({ hasText: name }).locator('[aria-hidden="true"] > span')
    return (await bar.boundingBox()) ?? (t.fail(`no bar of ${name}`) as never)
  }
  const [loss, gain, nothing] = [await measureBar('loss'), await measureBar('gain'), await measureBar('nothing')]
  const zero = gain.x
  t.ok(Math.abs(loss.x + loss.width - zero) < 1, 'negative bars end at zero')
  t.ok(Math.abs(loss.width / gain.width - 3) < 0.1, 'both sides have the same scale')
  t.ok(nothing.x === zero && nothing.width <= 2)
})

t.test('a question can be saved, opened, changed and deleted; a read key only opens it', async (t) => {
  const page = await site.visit(t, buildLink({ kind: 'series', series: [{ event: 'a' }] }, '&range=7d&as=number'))
  const save = async (button: string, name: string) => {
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByLabel('Name').fill(name)
    await page.getByRole('dialog').getByRole('button', { name: button, exact: true }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  await save('Save', 'Number of a')
  await page.getByRole('combobox', { name: 'Date range' }).selectOption('Last 90 days')
  await save('Save changes', 'A in 90 days')
  await save('Save as another', 'Another')

  const reader = await site.visit(t, '#/explore', await site.addKey('read'))
  t.ok(await reader.getByRole('button', { name: 'Save', exact: true }).isDisabled())
  await reader.getByRole('button', { name: 'Saved questions' }).click()
  const dialog = reader.getByRole('dialog')
  await dialog.getByRole('link', { name: 'Another' }).waitFor()
  t.equal(await dialog.getByRole('button', { name: /^Delete/ }).count(), 0)
  await dialog.getByRole('link', { name: 'A in 90 days' }).click()
  await reader.getByRole('button', { name: /^3: a/ }).waitFor()
  t.equal(await reader.getByRole('combobox', { name: 'Date range' }).inputValue(), '90d')

  await page.getByRole('button', { name: 'Saved questions' }).click()
  await checkAccessibility(t, page, 'saved questions')
  await page.getByRole('button', { name: 'Delete Another' }).click()
  await page.getByRole('button', { name: 'Delete question' }).click()
  // The list reopens after the deletion.
  await page.getByRole('dialog', { name: 'Saved questions' }).waitFor()
  await page.getByRole('button', { name: 'Delete Another' }).waitFor({ state: 'detached' })
  t.equal((await site.call('GET', '/public/questions')).json().questions.length, 1)
})

t.test('saving a question after somebody else offers both versions', async (t) => {
  const question = { kind: 'series', series: [{ event: 'a' }] }
  const theirs = async (name: string) => {
    const { statusCode } = await site.call('PUT', '/public/questions/shared', {
      name,
      question,
      display: { as: 'table', range: '90d' },
    })
    t.equal(statusCode, 200)
  }
  await theirs('Ours')
  const page = await site.visit(t, buildLink(question, '&saved=shared&as=number'))
  await page.getByText('Ours', { exact: true }).waitFor()
  const title = 'Someone else changed this question'
  const save = async () => {
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    await page.getByLabel('Name').fill('Mine')
    await page.getByRole('button', { name: 'Save changes' }).click()
    await page.getByRole('dialog', { name: title }).waitFor()
  }
  await theirs('Theirs')
  await save()
  await page.getByRole('button', { name: 'Load theirs' }).click()
  await page.getByText('Theirs', { exact: true }).waitFor()
  t.ok(await page.getByRole('radio', { name: 'Table' }).isChecked())
  await theirs('Theirs again')
  await save()
  await page.getByRole('button', { name: 'Overwrite' }).click()
  await page.getByText('Mine', { exact: true }).waitFor()
  t.match((await site.call('GET', '/public/questions/shared')).json().question, { name: 'Mine' })
  await site.call('DELETE', '/public/questions/shared')
})

t.test('a question that somebody else deletes while it is changed can be kept as a new one', async (t) => {
  const question = { kind: 'series', series: [{ event: 'a' }] }
  await site.call('PUT', '/public/questions/doomed', { name: 'Doomed', question, display: null })
  const page = await site.visit(t, buildLink(question, '&saved=doomed'))
  await page.getByText('Doomed', { exact: true }).waitFor()
  await site.call('DELETE', '/public/questions/doomed')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByLabel('Name').fill('Kept')
  await page.getByRole('button', { name: 'Save changes' }).click()
  const dialog = page.getByRole('dialog', { name: 'Someone else deleted this question' })
  await dialog.getByRole('button', { name: 'Save as new question' }).click()
  await page.getByText('Kept', { exact: true }).waitFor()
  const saved = (await site.call('GET', '/public/questions')).json().questions
  const [kept] = saved.filter(({ name }: { name: string }) => name === 'Kept')
  t.ok(kept && kept.id !== 'doomed')
  t.match(page.url(), `saved=${kept.id}`)
  await site.call('DELETE', `/public/questions/${kept.id}`)
})

t.test('a question can be added to a board, by value or by reference', async (t) => {
  const boards = async () => (await site.call('GET', '/public/boards')).json().boards
  const question = { kind: 'series', series: [{ event: 'a' }], interval: 'none' }
  const page = await site.visit(t, buildLink(question, '&as=number'))
  const dialog = page.getByRole('dialog', { name: 'Add to board' })
  await page.getByRole('button', { name: 'Add to board' }).click()
  await dialog.getByLabel('Title of the card').fill('Number of a')
  await dialog.getByLabel('Name of the new board').fill('Numbers')
  await checkAccessibility(t, page, 'a question for a board')
  await dialog.getByRole('button', { name: 'Add', exact: true }).click()
  await dialog.getByRole('link', { name: 'Numbers' }).click()
  const answer = page.getByRole('region', { name: 'Answer of Number of a' })
  await answer.getByRole('button', { name: /^3: a/ }).waitFor()

  await site.call('PUT', '/public/questions/total', { name: 'Total', question, display: { as: 'number' } })
  await page.goto(`${site.url}/${buildLink(question, '&as=number&saved=total')}`)
  await page.getByText('Total', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Add to board' }).click()
  await dialog.getByRole('button', { name: 'Add', exact: true }).click()
  await dialog.getByText('The question is on the board').waitFor()
  const [{ id }] = await boards()
  const { cards } = (await site.call('GET', `/public/boards/${id}`)).json().board
  t.match(cards, [
    { name: 'Number of a', question, display: { as: 'number' } },
    { name: 'Total', question: { saved: 'total' }, display: null },
  ])
  await site.call('DELETE', '/public/questions/total')
  const reader = await site.visit(t, buildLink(question), await site.addKey('read'))
  t.ok(await reader.getByRole('button', { name: 'Add to board' }).isDisabled())
})

t.test('filter values keep their types, and nested filters are edited as JSON', async (t) => {
  const page = await site.visit(
    t,
    buildLink({ kind: 'series', series: [{ event: '*' }], interval: 'none' }, '&as=number'),
  )
  await page.getByRole('button', { name: /^4:/ }).waitFor()
  await page.getByRole('group', { name: 'Filters of all events' }).getByRole('button', { name: '+ Filter' }).click()
  const filter = page.getByRole('group', { name: 'Filter', exact: true })
  await filter.getByRole('combobox', { name: 'Field' }).fill('of')
  await filter.getByRole('combobox', { name: 'Field' }).press('Enter')
  await filter.getByRole('combobox', { name: 'Value' }).fill('"5"')
  await filter.getByRole('combobox', { name: 'Value' }).press('Enter')
  await page.getByRole('button', { name: /^1:/ }).waitFor()
  await filter.getByRole('combobox', { name: 'Value' }).fill('5')
  await filter.getByRole('combobox', { name: 'Value' }).press('Enter')
  await filter.getByRole('button', { name: 'Remove "5"' }).click()
  await page.getByRole('button', { name: /^0:/ }).waitFor()

  const where = [
    'not',
    [
      'and',
      [
        ['is', 'event', ['a']],
        ['or', [['set', 'properties.n']]],
      ],
    ],
  ]
  await page.goto(
    `${site.url}/${buildLink({ kind: 'series', series: [{ event: '*' }], interval: 'none', where }, '&as=number')}`,
  )
  await page.getByRole('button', { name: /^3:/ }).waitFor()
  const text = page.getByLabel('Filter with deeper groups, as JSON')
  t.strictSame(JSON.parse(await text.inputValue()), where)
  await text.fill('["set","properties.n"]')
  await text.blur()
  await page.getByRole('button', { name: /^1:/ }).waitFor()
})

t.test('validation errors are shown next to their fields, and unsupported questions are edited as JSON', async (t) => {
  const wrong = {
    kind: 'series',
    series: [{ event: 'a' }],
    timezone: 'Mars/Olympus',
    from: '2026-05-02',
    to: '2026-05-01',
  }
  const page = await site.visit(t, buildLink(wrong))
  await page.getByRole('alert').waitFor()
  await page
    .getByText(/^This (?:must|is) /)
    .first()
    .waitFor()
  await page.goto(`${site.url}/#/explore?q=${encodeURIComponent('{"kind":"series","series":"a"}')}`)
  await page.getByText('This question can only be edited as JSON.').waitFor()
  const editor = page.getByLabel('Question as JSON')
  await editor.last().fill('{"kind":"series","series":[{"event":"a"}]')
  await page.getByRole('button', { name: 'Ask this' }).click()
  await page.getByText('This is not JSON').waitFor()
  await editor.last().fill('{"kind":"series","series":[{"event":"a"}],"interval":"none"}')
  await page.getByRole('button', { name: 'Ask this' }).click()
  await page.getByRole('group', { name: 'Series 1' }).waitFor()
  await page.getByRole('radio', { name: 'Numbers' }).check()
  await page.getByRole('button', { name: /^3: a/ }).waitFor()
})

t.test('numbers of the previous period have a drill-down', async (t) => {
  const DAY_MS = 86_400_000
  const earlier = Date.now() - 9 * DAY_MS
  const events = ['edsger', 'barbara'].map((distinct_id) => ({ event: 'then', distinct_id, timestamp: earlier }))
  await site.call('POST', '/public/track/batch', { events: [...events, { event: 'then', distinct_id: 'alan' }] })
  const dialog = () => page.getByRole('dialog')
  const behind = async (names: string[]) => {
    await dialog()
      .getByText(names.length === 1 ? '1 user' : `${names.length} users`, { exact: true })
      .waitFor()
    t.strictSame(await dialog().getByRole('link').allInnerTexts(), names)
    await page.keyboard.press('Escape')
  }
  const question = { kind: 'series', series: [{ event: 'then' }], interval: 'none' }
  const page = await site.visit(t, buildLink(question, '&compare=1&range=7d&as=number'))
  await page.getByRole('button', { name: '2: then, previous period' }).click()
  await behind(['barbara', 'edsger'])
  await page.getByRole('button', { name: '1: then', exact: true }).click()
  await behind(['alan'])
  await page.getByRole('radio', { name: 'Bars' }).check()
  await page.getByRole('button', { name: '2: then, previous period' }).click()
  await behind(['barbara', 'edsger'])
  await page.getByRole('combobox', { name: 'Interval' }).selectOption('daily')
  await page.getByRole('radio', { name: 'Table' }).check()
  await page
    .getByRole('button', { name: /^2: then, previous period/ })
    .first()
    .click()
  await behind(['barbara', 'edsger'])
})

t.test('a value is compared with its own past, even if others were more frequent then', async (t) => {
  const key = await site.addKey('secret', 'compared')
  const times = (count: number, value: string, days: number) => {
    const timestamp = Date.now() - days * 86_400_000
    return Array.from({ length: count }, (_, i) => ({
      event: 'a',
      distinct_id: `u${i}`,
      timestamp,
      properties: { value },
    }))
  }
  const events = [...times(10, 'A', 2), ...times(5, 'B', 2), ...times(9, 'B', 10), ...times(4, 'A', 10)]
  const sent = await site.call('POST', '/public/track/batch', { events }, { 'x-api-key': key })
  t.equal(sent.statusCode, 200)
  const question = { kind: 'series', series: [{ event: 'a' }], breakdown: ['properties.value'], limit: 1 }
  const page = await site.visit(t, buildLink({ ...question, interval: 'none' }, '&range=7d&compare=1&as=number'), key)
  const totals = page.getByRole('region', { name: 'Answer', exact: true })
  await totals.getByText('▲ 150% vs. 4 in the previous period').waitFor()
  await totals.getByText('▼ 44.4% vs. 9 in the previous period').waitFor()
  await totals.getByRole('button', { name: '9: Other, previous period' }).click()
  await page.getByRole('dialog').getByText('9 users', { exact: true }).waitFor()
})

t.test('a question is saved without incomplete filters', async (t) => {
  const page = await site.visit(t, buildLink({ kind: 'series', series: [{ event: 'a' }] }, '&range=7d'))
  const filters = page.getByRole('group', { name: 'Filters of all events' })
  await filters.getByRole('button', { name: '+ Filter' }).click()
  await filters.getByRole('combobox', { name: 'Field', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByLabel('Name').fill('Unfinished')
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  const { questions } = (await site.call('GET', '/public/questions')).json()
  const saved = questions.find(({ name }: { name: string }) => name === 'Unfinished')
  t.equal(saved?.question.where, undefined)
  await page.getByRole('button', { name: '+ Series' }).click()
  await page.getByText('Choose an event.').first().waitFor()
  t.ok(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled())
})

t.test('a link opened on a phone shows the answer without scrolling', async (t) => {
  const page = await site.visit(t, buildLink({ kind: 'series', series: [{ event: 'a' }] }, '&range=7d'))
  await page.setViewportSize({ width: 390, height: 844 })
  const chart = page.getByRole('img', { name: /^Chart of a/ })
  await chart.waitFor()
  const box = await chart.boundingBox()
  t.ok(box && box.y + box.height < 844, `the chart is in sight, not at ${box?.y}`)
})

t.test('the last answer is not saved as that of a question that is still loading', async (t) => {
  const ask = (event: string) => buildLink({ kind: 'series', series: [{ event }], interval: 'none' }, '&as=table')
  const page = await site.visit(t, ask('a'))
  const answer = page.getByRole('region', { name: 'Answer', exact: true })
  const button = answer.getByRole('button', { name: 'Download CSV' })
  await answer.getByRole('cell', { name: 'a', exact: true }).waitFor()
  t.ok(await button.isEnabled())
  let answerIt = () => {}
  const isAnswered = new Promise<void>((resolve) => {
    answerIt = resolve
  })
  await page.route('**/public/query', async (route) => {
    await isAnswered
    await route.continue()
  })
  await page.goto(`${site.url}/${ask(HTML)}`)
  await until('no button to save the old answer', async () => await button.isDisabled())
  t.equal(await answer.getByRole('cell', { name: 'a', exact: true }).count(), 1, 'it is still shown')
  answerIt()
  await until('a button to save the new answer', async () => await button.isEnabled())
  t.match(await download(page, 'Download CSV'), '<img src=x')
})
