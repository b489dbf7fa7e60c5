import t from 'tap'
import { startClickHouse } from '../helper.js'
import { startSite } from './page.js'

const SILENT = 'ClickHouse is not responding, so nothing can be read.'

t.test('an outage of ClickHouse', async (t) => {
  const clickhouse = await startClickHouse(t)
  const { call, visit, url } = await startSite(t, { CLICKHOUSE_URL: clickhouse.url })
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { name: 'Ada' } })
  const sent = await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada', properties: { n: 1 } })
  const id = String(sent.headers['x-event-id'])
  const pid = clickhouse.pid() ?? 0
  t.teardown(() => process.kill(pid, 'SIGCONT'))

  t.test('views report an unavailable store, and recover', async (t) => {
    const page = await visit(t, '#/live')
    await page.getByText('signed up').waitFor()
    const alert = page.getByRole('alert').getByText(SILENT)
    const views = [
      ['#/users', page.getByRole('link', { name: 'ada' })],
      ['#/explore', page.getByRole('button', { name: 'Download CSV' })],
      ['#/live', page.getByRole('link', { name: 'signed up' })],
    ] as const
    for (const [link, content] of views) {
      // The first one is opened anew; the others, by a link of the page.
      if (link === '#/users') await page.goto('about:blank')
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

  t.test('views report an outage that begins while nobody does anything, and keep what was typed', async (t) => {
    const page = await visit(t, '#/health')
    const alert = page.getByRole('alert').getByText('It reconnects automatically. See Health.')
    const views = [
      ['#/live', page.getByRole('link', { name: 'signed up' })],
      ['#/users/ada', page.getByRole('region', { name: 'Events' }).getByText('signed up')],
      ['#/health', page.getByRole('region', { name: 'Store' })],
    ] as const
    for (const [link, content] of views) {
      await page.goto(`${url}/${link}`)
      await content.first().waitFor()
      await page.route('**/health/ready', (route) => route.abort('connectionrefused'))
      const before = Date.now()
      await alert.waitFor()
      t.comment(`${link} said so after ${Date.now() - before} ms`)
      await page.unroute('**/health/ready')
      await alert.waitFor({ state: 'hidden' })
    }

    await page.evaluate(`location.hash = '#/users/ada/${id}'`)
    await page.getByRole('button', { name: 'Edit properties' }).click()
    const typed = page.getByLabel('Properties (JSON)')
    await typed.fill('{"n":2}')
    process.kill(pid, 'SIGSTOP')
    await page.getByRole('alert').getByText(SILENT).waitFor()
    process.kill(pid, 'SIGCONT')
    await alert.waitFor({ state: 'hidden' })
    await page.context().setOffline(true)
    await alert.waitFor()
    await page.getByRole('button', { name: 'Save…' }).click()
    await page.getByRole('button', { name: 'Replace properties' }).click()
    await page.getByRole('dialog').getByText('The service cannot be reached.').waitFor()
    await page.context().setOffline(false)
    await alert.waitFor({ state: 'hidden' })
    t.equal(await typed.inputValue(), '{"n":2}')
    await page.getByRole('button', { name: 'Replace properties' }).click()
    await page.getByRole('region', { name: 'Properties, exactly as stored' }).getByText('{"n":2}').waitFor()
  })
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
  await page
    .getByRole('alert')
    .getByText('The service cannot be reached. It reconnects automatically. See Health.')
    .waitFor()
  await page.context().setOffline(false)
  await page.getByRole('link', { name: 'ada' }).waitFor()
})

t.test('views retry calls that failed although the service was ready', async (t) => {
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
    ['#/users/ada', page.getByRole('region', { name: 'Events' }).getByText('signed up')],
    ['#/', page.getByRole('heading', { name: 'Overview' })],
    ['#/explore', page.getByRole('button', { name: 'Download CSV' })],
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
      .catch(() => t.fail(`${link} does not continue`))
    t.ok(asked.size > 1, `${link} was left without ${asked.size} answers`)
  }
})
