import t from 'tap'
import { startClickHouse } from '../helper.js'
import { startSite } from './page.js'

const SILENT = 'The store, ClickHouse, does not answer'

t.test('every view reports an unavailable store, and recovers', async (t) => {
  const clickhouse = await startClickHouse(t)
  const { call, visit, url } = await startSite(t, { CLICKHOUSE_URL: clickhouse.url })
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { name: 'Ada' } })
  await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada' })
  const page = await visit(t, '#/live')
  await page.getByText('signed up').waitFor()
  const alert = page.getByRole('alert').getByText(SILENT)
  const pid = clickhouse.pid() ?? 0
  t.teardown(() => process.kill(pid, 'SIGCONT'))
  const views = [
    ['#/users', page.getByRole('link', { name: 'ada' })],
    ['#/users/ada', page.getByRole('heading', { name: 'Ada' })],
    ['#/', page.getByRole('heading', { name: 'Overview' })],
    ['#/explore', page.getByRole('button', { name: 'Download CSV' })],
    ['#/live', page.getByRole('link', { name: 'signed up' })],
  ] as const
  for (const [link, content] of views) {
    await page.goto('about:blank')
    process.kill(pid, 'SIGSTOP')
    await page.goto(`${url}/${link}`)
    const before = Date.now()
    await alert.waitFor()
    t.comment(`${link} said so after ${Date.now() - before} ms`)
    process.kill(pid, 'SIGCONT')
    await content.first().waitFor()
    await alert.waitFor({ state: 'hidden' })
  }
})

t.test('failed loads are repeated when the service is ready', async (t) => {
  const { call, visit } = await startSite(t)
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { name: 'Ada' } })
  const page = await visit(t, '#/health')
  await page.getByRole('heading', { name: 'Health' }).waitFor()
  const down = { status: 0, error: 'The store is unavailable.', code: 'unavailable', store: 'unavailable' }
  for (const path of ['**/public/**', '**/health/ready']) {
    await page.route(path, (route) => route.fulfill({ status: 503, json: down }))
  }
  await page.getByRole('link', { name: 'Users', exact: true }).click()
  await page.getByRole('alert').getByText('The store is unavailable.').waitFor()
  await page.getByRole('alert').getByText(SILENT).waitFor()
  await page.unroute('**/public/**')
  await page.unroute('**/health/ready')
  await page.getByRole('link', { name: 'ada' }).waitFor()
  await page.getByRole('alert').getByText(SILENT).waitFor({ state: 'hidden' })
})

t.test('an offline page says so, and recovers', async (t) => {
  const { call, visit } = await startSite(t)
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { name: 'Ada' } })
  const page = await visit(t, '#/health')
  await page.getByRole('heading', { name: 'Health' }).waitFor()
  await page.context().setOffline(true)
  // The chunk of this view has not been loaded yet.
  await page.getByRole('link', { name: 'Users', exact: true }).click()
  await page.getByRole('alert').getByText('The service cannot be reached. This page goes on by itself').waitFor()
  await page.context().setOffline(false)
  await page.getByRole('link', { name: 'ada' }).waitFor()
})

t.test('every view retries calls that failed although the service was ready', async (t) => {
  const { call, visit, url } = await startSite(t)
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { name: 'Ada' } })
  const sent = await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada', properties: { n: 1 } })
  const id = String(sent.headers['x-event-id'])
  const page = await visit(t, '#/health')
  let asked = new Set<string>()
  await page.route(/\/(?:public|session)\b/, async (route) => {
    const what = route.request().url() + route.request().postData()
    if (asked.has(what)) return await route.fallback()
    asked.add(what)
    await route.abort('internetdisconnected')
  })
  const views = [
    ['#/users', page.getByRole('link', { name: 'ada' })],
    ['#/users/ada', page.getByRole('region', { name: 'Events' }).getByText('signed up')],
    ['#/', page.getByRole('heading', { name: 'Overview' })],
    ['#/explore', page.getByRole('button', { name: 'Download CSV' })],
    ['#/live', page.getByRole('link', { name: 'signed up' })],
    ['#/data', page.getByText('signed up')],
    ['#/data/dead-letters', page.getByRole('heading', { name: 'No dead letters' })],
    [`#/live/${id}`, page.getByRole('dialog').getByText('signed up')],
  ] as const
  for (const [link, content] of views) {
    await page.goto('about:blank')
    asked = new Set()
    await page.goto(`${url}/${link}`)
    await content
      .first()
      .waitFor({ timeout: 15_000 })
      .catch(() => t.fail(`${link} does not go on`))
    t.ok(asked.size > 1, `${link} was left without ${asked.size} answers`)
  }
})
