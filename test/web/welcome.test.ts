import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import t from 'tap'
import { buildSnippets } from '../../src/web/views/welcome/snippets.js'
import { temporaryFolder, until } from '../helper.js'
import { findRows } from './live-site.js'
import { checkAccessibility, startSite } from './page.js'

const run = promisify(execFile)
const site = await startSite(t)
/** No registry has our package. */
const NO_REGISTRY = { npm_config_registry: 'http://127.0.0.1:1/', npm_config_audit: 'false', npm_config_fund: 'false' }

t.test('an empty project shows how to send an event, until one arrives', async (t) => {
  const [reader, writer] = [await site.addKey('read', 'fresh'), await site.addKey('write', 'fresh')]
  const page = await site.visit(t, '#/live', reader)
  await page.getByRole('heading', { name: 'Send your first event' }).waitFor()
  await checkAccessibility(t, page, 'the welcome')
  for (const view of ['Boards', 'Explore', 'Live']) {
    await page.getByRole('link', { name: view, exact: true }).click()
    await page.getByRole('heading', { name: 'Send your first event' }).waitFor()
  }
  t.equal(await page.getByRole('tab', { selected: true }).textContent(), 'Website')
  await page.getByRole('tab', { name: 'Website' }).press('ArrowLeft')
  t.equal(await page.getByRole('tab', { selected: true }).textContent(), 'Amplitude', 'the arrow keys wrap around')
  await page.getByText('keys create --project fresh --kind write').waitFor()
  t.notMatch(await page.content(), /[sprw]k_[\w-]{10}/, 'no key is shown')

  await page.getByRole('tab', { name: 'curl' }).click()
  const code = (await page.getByRole('region', { name: 'An event from curl' }).textContent()) ?? ''
  t.match(code, `${site.url}/public/track`)
  await until('the stream', async () => /^tallyhouse_live_streams 1$/m.test((await site.app.inject('/metrics')).body))
  await run('bash', ['-c', `${code.replace('YOUR_WRITE_KEY', writer)} -sf`])
  await findRows(page).filter({ hasText: 'signed up' }).waitFor()
})

t.test('the line of the welcome page records the views of a website, which are then what opens first', async (t) => {
  const { code = '' } = buildSnippets(site.url).find(({ title }) => title === 'Website') ?? {}
  const key = await site.addKey('write', 'Website')
  const html = `<!doctype html><title>A shop</title>${code.replace('YOUR_WRITE_KEY', key)}`
  const website = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(html)
  }).listen(0, '127.0.0.1')
  await once(website, 'listening')
  t.teardown(() => {
    website.closeAllConnections()
    website.close()
  })
  const reader = await site.addKey('read', 'Website')
  const page = await site.visit(t, '#/', reader)
  await page.getByRole('heading', { name: 'Send your first event' }).waitFor()
  await until('the stream', async () => /^tallyhouse_live_streams 1$/m.test((await site.app.inject('/metrics')).body))
  const visitor = await page.context().newPage()
  t.teardown(() => visitor.close())
  await visitor.goto(`http://127.0.0.1:${(website.address() as AddressInfo).port}/sale`)
  const found = await until('the page view', async () => {
    const { body } = await site.call('GET', '/public/events', undefined, { 'x-api-key': reader })
    return JSON.parse(body).events?.[0]
  })
  t.match(found, { event: '$pageview', properties: { title: 'A shop', url: /\/sale$/ }, session_id: /./ })
  await page.getByRole('heading', { name: 'Web', exact: true }).waitFor()
  // The test's browser says that it is headless, as only bots do.
  await page.getByRole('button', { name: 'Remove filter: Without bots' }).click()
  await page.getByRole('button', { name: '1: Unique visitors' }).waitFor()
  t.equal(await page.getByRole('navigation', { name: 'Views' }).getByRole('link').first().textContent(), 'Web')
  const later = await site.visit(t, '#/', reader)
  await later.getByRole('heading', { name: 'Web', exact: true }).waitFor()
  t.match(await later.title(), /^Web /)
})

t.test('the welcome page creates a write key, and puts it into the code', async (t) => {
  const secret = await site.addKey('secret', 'new')
  const page = await site.visit(t, '#/', secret)
  await page.getByText('Replace YOUR_WRITE_KEY').waitFor()
  await page.getByRole('button', { name: 'Create a write key' }).click()
  await page.getByText('It is shown only this once').waitFor()
  t.match(
    await page.evaluate('document.activeElement.textContent'),
    /^The code above has your new write key/,
    'the focus',
  )
  await checkAccessibility(t, page, 'the welcome with a key')
  t.notMatch(await page.content(), 'YOUR_WRITE_KEY')
  await page.getByRole('tab', { name: 'curl' }).click()
  const code = (await page.getByRole('region', { name: 'An event from curl' }).textContent()) ?? ''
  t.match(code, /x-api-key: wk_/)
  await run('bash', ['-c', `${code} -sf`])
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
})

t.test('the code of the welcome page sends an event', async (t) => {
  for (const { title, install, code } of buildSnippets(site.url)) {
    if (title === 'curl' || title === 'Website') continue
    const isOwn = title === 'Node'
    const cwd = isOwn ? await temporaryFolder(t) : undefined
    if (isOwn) await run('sh', ['-e', '-c', install ?? ''], { cwd, env: { ...process.env, ...NO_REGISTRY } })
    const key = await site.addKey('write', title)
    await run(process.execPath, ['--input-type=module', '-e', code.replaceAll('YOUR_WRITE_KEY', key)], { cwd })
    const reader = await site.addKey('read', title)
    const found = await until(`the event from ${title}`, async () => {
      const { body } = await site.call('GET', '/public/events', undefined, { 'x-api-key': reader })
      return JSON.parse(body).events?.[0]
    })
    t.match(found, { event: 'signed up', distinct_id: 'ada' }, title)
  }
})
