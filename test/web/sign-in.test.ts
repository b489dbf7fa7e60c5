import type { Page } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, installClock, startSite } from './page.js'

const DAY = 86_400_000
const question = { kind: 'series', series: [{ event: '*', metric: 'events' }] }

/** Also works if the form already covers the button, because a pending read may have ended the session. */
async function saveBoard(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Save board', includeHidden: true }).dispatchEvent('click')
}

async function signInAgain(page: Page, key: string): Promise<void> {
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
  await page.getByLabel('Key of the project').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor({ state: 'detached' })
}

t.test('an expired session', async (t) => {
  let now = Date.now()
  const site = await startSite(t, undefined, { now: () => now })
  const { call, visit, url, key: own, addKey, revokeKey } = site
  const expire = () => {
    now += 8 * DAY
  }
  await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada' })
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { name: 'Ada' } })
  const cards = [{ id: 'a', name: 'All', question, width: 2 }]
  await call('PUT', '/public/boards/team', { name: 'Team', cards })

  t.test('views ask to sign in again, and then continue', async (t) => {
    const page = await visit(t, '#/health')
    const views = [
      ['#/users', page.getByRole('link', { name: 'ada' })],
      ['#/explore', page.getByRole('button', { name: 'Download CSV' })],
      ['#/live', page.getByRole('status').getByText('Live', { exact: true })],
    ] as const
    for (const [link, content] of views) {
      expire()
      // Not by a click, because a pending read of the previous view may have opened the form already.
      await page.goto(`${url}/${link}`)
      await page.getByRole('dialog', { name: 'Sign in again' }).getByText('You have been signed out').waitFor()
      if (link === '#/users') await checkAccessibility(t, page, 'the form over a view')
      await signInAgain(page, own)
      await content.first().waitFor()
      t.equal(page.url(), `${url}/${link}`)
    }
  })

  t.test('keeps unsaved input', async (t) => {
    const page = await visit(t, '#/board/team?edit=1')
    await page.getByLabel('Name of the board').fill('Our team')
    expire()
    await saveBoard(page)
    await page.getByRole('dialog').press('Escape')
    await page.getByRole('dialog').press('Escape')
    await signInAgain(page, own)
    t.equal(await page.getByLabel('Name of the board').inputValue(), 'Our team')
    await page.getByRole('alert').getByText('You were signed out. Sign in and try again.').waitFor()
    await page.getByRole('button', { name: 'Save board' }).click()
    await page.getByRole('heading', { name: 'Our team' }).waitFor()
  })

  t.test('includes the session of a revoked key', async (t) => {
    const key = await addKey('read')
    const page = await visit(t, '#/users', key)
    await page.getByRole('link', { name: 'ada' }).waitFor()
    await revokeKey(key)
    await page.getByRole('searchbox').fill('ad')
    await signInAgain(page, own)
    await page.getByRole('link', { name: 'ada' }).waitFor()
    t.match(page.url(), /search=ad$/)
  })

  t.test('hides the data of one project after signing in to another', async (t) => {
    const page = await visit(t, '#/board/team?edit=1')
    await page.getByLabel('Name of the board').fill('Their team')
    expire()
    await saveBoard(page)
    await signInAgain(page, await addKey('secret', 'elsewhere'))
    await page.getByText('elsewhere').first().waitFor()
    await page.getByRole('heading', { name: 'Send your first event' }).waitFor()
    t.equal(await page.getByText('Their team').count(), 0)
  })

  t.test('a file that waited for the sign-in does not get the data of another project', async (t) => {
    const page = await visit(t, '#/users')
    await page.getByRole('link', { name: 'ada' }).waitFor()
    const files: string[] = []
    page.on('request', (request) => request.url().includes('limit=10000') && files.push(request.url()))
    expire()
    await page.getByRole('button', { name: 'Download CSV' }).click()
    await signInAgain(page, await addKey('secret', 'elsewhere'))
    await page.getByText('No users yet').waitFor()
    t.equal(files.length, 1, 'it is not asked for again')
  })

  t.test('a project that this browser is signed in to by now is not changed from the page of another', async (t) => {
    const page = await visit(t, '#/board/team?edit=1')
    await installClock(page)
    await page.reload()
    await page.getByLabel('Name of the board').fill('Their team')
    const headers = { 'x-api-key': await addKey('secret', 'elsewhere') }
    const response = await call('POST', '/session', {}, headers)
    const [name = '', value = ''] = String(response.headers['set-cookie']).split(/[=;]/)
    await page.context().addCookies([{ name, value, url, httpOnly: true, sameSite: 'Strict' }])
    await page.clock.fastForward(DAY)
    await page.getByText('You signed in to elsewhere in another tab.').waitFor()
    const [saving] = await Promise.all([page.waitForResponse('**/public/boards/team'), saveBoard(page)])
    t.equal(saving.status(), 403)
  })
})

t.test('a sign-out neither waits for a read of the sign-in nor is undone by it', async (t) => {
  const { visit } = await startSite(t)
  const page = await visit(t, '#/users')
  const held: (() => void)[] = []
  const methods: string[] = []
  await page.route('**/session', async (route) => {
    const method = route.request().method()
    methods.push(method)
    if (method !== 'GET') return await route.continue()
    const response = await route.fetch()
    await new Promise<void>((resolve) => held.push(resolve))
    // The page no longer waits for it.
    await route.fulfill({ response }).catch(() => undefined)
  })
  await page.evaluate(`new BroadcastChannel('sign-in').postMessage('signed in')`)
  await until('a read', () => held.length === 1)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Key of the project').waitFor()
  t.strictSame(methods, ['GET', 'DELETE'])
  held[0]?.()
  await page.unroute('**/session')
  await page.reload()
  await page.getByLabel('Key of the project').waitFor()
})

t.test('tabs of a browser share one session', async (t) => {
  const { call, visitInTab, addKey, key, project } = await startSite(t)
  await call('PUT', '/public/boards/team', { name: 'Team', cards: [] })
  await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada' })
  const first = await visitInTab(t, '#/board/team?edit=1')
  await first.getByLabel('Name of the board').fill('Our team')
  const second = await visitInTab(t, '#/users')
  await second.getByRole('heading', { name: 'Users' }).waitFor()
  t.equal(await first.getByLabel('Name of the board').inputValue(), 'Our team', 'the same project keeps its state')

  const other = await visitInTab(t, '#/users', await addKey('secret', 'elsewhere'))
  await other.getByText('elsewhere').first().waitFor()
  await second.getByText('elsewhere').first().waitFor()
  await first.bringToFront()
  await first.getByText('You signed in to elsewhere in another tab.').waitFor()
  await signInAgain(first, key)
  t.equal(await first.getByLabel('Name of the board').inputValue(), 'Our team')
  await first.getByRole('button', { name: 'Save board' }).click()
  await first.getByRole('heading', { name: 'Our team' }).waitFor()
  await other.getByText(project).first().waitFor()
})

t.test('other tabs hear of a sign-in whose answer is lost', async (t) => {
  const { visitInTab, addKey } = await startSite(t)
  const [first, second] = [await visitInTab(t, '#/users'), await visitInTab(t, '#/users')]
  await second.getByRole('button', { name: 'Sign out' }).click()
  await first.getByLabel('Key of the project').waitFor()
  await second.route('**/session', (route) =>
    route.request().method() === 'GET' ? route.abort('connectionrefused') : route.continue(),
  )
  await second.getByLabel('Key of the project').fill(await addKey('secret', 'farther'))
  await second.getByRole('button', { name: 'Sign in' }).click()
  await second.getByRole('alert').getByText('The service cannot be reached.').waitFor()
  await first.getByText('farther').first().waitFor()
})

t.test('a browser that rejects cookies gets an explanation', async (t) => {
  const { visit, url, key } = await startSite(t)
  const page = await visit(t, '#/users')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.route('**/session', async (route) => {
    const response = await route.fetch()
    await page.context().clearCookies()
    const { 'set-cookie': _, ...headers } = response.headers()
    await route.fulfill({ response, headers })
  })
  await page.getByLabel('Key of the project').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page
    .getByRole('alert')
    .getByText(`Allow cookies for ${new URL(url).host}`)
    .waitFor()
})
