import type { Page } from 'playwright-core'
import t from 'tap'
import { checkAccessibility, startSite } from './page.js'

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
