import type { Page } from 'playwright-core'
import t from 'tap'
import { checkAccessibility, startSite } from './page.js'

const link = (question: object, more: Record<string, string>) =>
  `#/explore?${new URLSearchParams({ q: JSON.stringify(question), ...more })}`

t.test('answers render with extreme numbers and names', async (t) => {
  const { call, visit, url } = await startSite(t)
  const names = [
    '',
    ' ',
    'x'.repeat(255),
    'مرحبا بالعالم',
    '👩‍👩‍👧‍👦',
    '<b>',
    ...Array.from({ length: 12 }, (_, i) => `value ${i}`),
  ]
  const events = names.map((name, i) => {
    return {
      event: 'sold',
      distinct_id: `u${i}`,
      properties: { name, text: 'none', small: 0.004, sum: i % 2 ? -1e12 : 7 },
    }
  })
  t.equal((await call('POST', '/public/track/batch', { events })).statusCode, 200)
  const page = await visit(t, '#/explore')
  const show = async (page: Page, question: object, more: Record<string, string>) => {
    // Otherwise the previous answer could be mistaken for this one.
    await page.goto('about:blank')
    await page.goto(`${url}/${link(question, more)}`)
    await page.getByText('Answered in').waitFor()
  }
  const sold = (metric: string, property: string) => ({ kind: 'series', series: [{ event: 'sold', metric, property }] })

  await show(page, sold('avg', 'properties.text'), { as: 'line' })
  await page.getByText('No events in this period.').waitFor()
  await show(page, sold('avg', 'properties.small'), { as: 'number' })
  await page.getByRole('button', { name: '0.004' }).waitFor()
  const split = { ...sold('sum', 'properties.sum'), breakdown: ['properties.name'], limit: 40 }
  await show(page, split, { as: 'number', range: '7d', compare: '1' })
  const answer = page.getByRole('region', { name: 'Answer', exact: true })
  for (const [name, content] of [
    ['Lines', answer.locator('canvas')],
    ['Stacked', answer.getByRole('button', { name: 'value 1', exact: true })],
    ['Bars', answer.getByRole('button', { name: 'value 1', exact: true })],
    ['Numbers', answer.getByText('in the previous period')],
    ['Table', answer.getByRole('columnheader', { name: '<b>, previous period' })],
  ] as const) {
    await page.getByRole('radio', { name }).check()
    await content.first().waitFor()
    // A series that is hidden looks different in the legend.
    if (name === 'Stacked') await content.click()
    // The others are checked on the overview.
    if (name === 'Stacked' || name === 'Table') await checkAccessibility(t, page, name)
  }
  await page.setViewportSize({ width: 390, height: 844 })
  const table = page.getByRole('region', { name: 'Table: Numbers' })
  const heights = await table
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height))
  t.ok(heights.length > 0)
  t.ok(Math.max(...heights) < 60, `no number is broken into lines: ${heights}`)
})

t.test('tables keep their columns readable next to a long name', async (t) => {
  const { call, visit } = await startSite(t)
  const long = 'x'.repeat(255)
  const events = ['short', long].map((event) => ({ event, distinct_id: event, properties: { plan: event } }))
  t.equal((await call('POST', '/public/track/batch', { events })).statusCode, 200)
  for (const distinct_id of ['short', long]) {
    t.equal((await call('POST', '/public/users/identify', { distinct_id })).statusCode, 200)
  }
  const page = await visit(t, '#/data')
  for (const [view, name] of [
    ['data', 'Events'],
    ['users', 'Users'],
  ] as const) {
    await page.evaluate(`location.hash = '#/${view}'`)
    const table = page.getByRole('table', { name })
    const rows = table.locator('tr')
    for (const viewport of [
      { width: 1280, height: 900 },
      { width: 360, height: 800 },
    ]) {
      await page.setViewportSize(viewport)
      for (const row of [rows.first(), rows.filter({ hasText: 'short' })]) {
        const { height = 0 } = (await row.boundingBox()) ?? {}
        t.ok(height > 0 && height < 60, `${view} at ${viewport.width} px: ${height} px`)
      }
      const { width = 0 } = (await table.boundingBox()) ?? {}
      t.ok(width > 0 && width < viewport.width, `${view} at ${viewport.width} px: as wide as ${width} px`)
    }
  }
})

t.test('a render error is shown, and other views keep working', async (t) => {
  const { call, visit, url } = await startSite(t)
  await call('POST', '/public/track', { event: 'a', distinct_id: 'ada' })
  const page = await visit(t, '#/data')
  // No known answer of the service causes this, so it simulates a bug in the page.
  await page.route('**/public/query', (route) =>
    route.fulfill({ json: { status: 1, error: null, kind: 'series', results: [null] } }),
  )
  const question = '{"kind":"series","series":[{"event":"*"}]}'
  await page.goto(`${url}/#/explore?${new URLSearchParams({ q: question })}`)
  const alert = page.getByRole('alert').getByText('This view cannot be shown')
  await alert.waitFor()
  await page.unroute('**/public/query')
  await page.goto(`${url}/#/explore`)
  await alert.waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'Data', exact: true }).click()
  await page.getByRole('heading', { name: 'Data' }).waitFor()
})
