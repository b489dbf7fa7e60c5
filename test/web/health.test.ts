import type { Page } from 'playwright-core'
import t from 'tap'
import { startClickHouse, until } from '../helper.js'
import { checkAccessibility, installClock, startSite } from './page.js'

const EVERY_MS = 5_000

/** The text of a check. */
const readText = async (page: Page, part: string) =>
  (await page.getByRole('region', { name: part }).textContent()) ?? ''

/** Advances the page's clock until a check contains a text. */
async function waitForText(page: Page, part: string, text: string | RegExp): Promise<void> {
  await until(`${part}: ${text}`, async () => {
    if ((await readText(page, part)).match(text)) return true
    await page.clock.fastForward(EVERY_MS)
    return false
  })
}

t.test('the health view describes the state of the service and follows it', async (t) => {
  const clickhouse = await startClickHouse(t)
  const { call, visit, key } = await startSite(t, { CLICKHOUSE_URL: clickhouse.url })
  const page = await visit(t, '#/health')
  await page.getByRole('region', { name: 'Backlog' }).waitFor()
  t.match(await readText(page, 'Service'), /The service is ready/)
  await installClock(page)
  await page.reload()
  await call('POST', '/public/track', { event: 'seen', distinct_id: 'ada' })
  await waitForText(page, 'Intake', /Accepted since it started1R/)
  await waitForText(page, 'Backlog', 'All accepted events are stored.')
  await waitForText(page, 'Store', /Events stored since it started1F/)

  await t.test('placeholder names and refused aliases are reported and listed', async (t) => {
    await call('POST', '/public/users/identify', { distinct_id: 'grace' })
    const authorization = `Basic ${Buffer.from(`${key}:`).toString('base64')}`
    const batch = [
      { type: 'identify', messageId: 'm1', userId: 'undefined', anonymousId: 'visitor-1' },
      { type: 'identify', messageId: 'm2', userId: 'ada', anonymousId: 'grace' },
    ]
    const sent = await call('POST', '/segment/v1/batch', { batch }, { authorization })
    t.equal(sent.statusCode, 200, sent.body)
    await waitForText(page, 'User names', /had a placeholder, such as undefined, instead of a user id/)
    await waitForText(page, 'User names', /1\slink was refused because both names are known users/)
    const letters = await visit(t, '#/data/dead-letters')
    await letters
      .getByText(/grace.*identified|identified.*grace/)
      .first()
      .waitFor()
  })

  t.test('an unknown state is not reported as healthy', async (t) => {
    await page.route('**/metrics', (route) => route.fulfill({ status: 502, body: '' }))
    const status = page.getByRole('status')
    await until('a failure', async () => {
      await page.clock.fastForward(EVERY_MS)
      return /has been unknown since/.test((await status.textContent()) ?? '')
    })
    t.notMatch(await status.textContent(), '✓')
    await page.unroute('**/metrics')
    await waitForText(page, 'Store', 'ClickHouse is storing')
    await until('the state', async () => /Everything is working|Worth a look/.test((await status.textContent()) ?? ''))
  })

  t.test('an unavailable store is reported with advice', async (t) => {
    await clickhouse.close()
    await call('POST', '/public/track', { event: 'waits', distinct_id: 'ada' })
    await waitForText(page, 'Store', 'ClickHouse is not responding')
    await waitForText(page, 'Backlog', /1\sentry is waiting/)
    t.match(await readText(page, 'Store'), /Act now[\s\S]*What to do: Start ClickHouse/)
    t.match(await readText(page, 'Service'), /Not ready: store/)
    t.match((await page.getByRole('status').textContent()) ?? '', /Act now on: service, /)
    await checkAccessibility(t, page, 'a service in trouble')
  })
})

t.test('a hidden tab does not poll, and refreshes when it is shown', async (t) => {
  const { visitInTab } = await startSite(t)
  const page = await visitInTab(t, '#/health')
  await page.getByRole('region', { name: 'Intake' }).waitFor()
  await installClock(page)
  let asked = 0
  await page.route('**/metrics', async (route) => {
    asked++
    await route.continue()
  })
  await page.reload()
  await until('the first reading', () => asked > 0)
  await page.getByRole('region', { name: 'Intake' }).waitFor()
  const other = await page.context().newPage()
  await until('the tab to be hidden', () => page.evaluate<boolean>('document.hidden'))
  const before = asked
  await page.clock.fastForward(10 * EVERY_MS)
  t.equal(asked, before)
  await other.close()
  await page.bringToFront()
  await until('a reading', () => asked > before)
})
