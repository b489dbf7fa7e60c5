import type { Page } from 'playwright-core'
import t from 'tap'
import { SECRET_KEY } from '../helper.js'
import { isUsable, startSite } from './page.js'

const DAY = 86_400_000
const question = { kind: 'series', series: [{ event: '*', metric: 'events' }] }

/** Clicks it also where the form covers it already: a read that was under way may have found that the session has ended. */
async function saveBoard(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Save board', includeHidden: true }).dispatchEvent('click')
}

async function signInAgain(page: Page, key = SECRET_KEY): Promise<void> {
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
  await page.getByLabel('Key of the project').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor({ state: 'detached' })
}

t.test('a session that ends', async (t) => {
  let now = Date.now()
  const site = await startSite(t, {}, { now: () => now })
  const { call, visit, url, addKey, revokeKey } = site
  const expire = () => {
    now += 8 * DAY
  }
  await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada' })
  await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { name: 'Ada' } })
  const cards = [{ id: 'a', name: 'All', question, width: 2 }]
  await call('PUT', '/public/boards/team', { name: 'Team', cards })

  t.test('leads from every view to the form, and back to what was asked for', async (t) => {
    const page = await visit(t, '#/health')
    const views = [
      ['#/users', page.getByRole('link', { name: 'ada' })],
      ['#/', page.getByRole('heading', { name: 'Team' })],
      ['#/explore', page.getByRole('button', { name: 'Download CSV' })],
      ['#/live', page.getByRole('status').getByText('Live', { exact: true })],
      ['#/data', page.getByRole('cell', { name: 'signed up' })],
    ] as const
    for (const [link, content] of views) {
      expire()
      // Not by a click: what the view before still reads may have brought the form already.
      await page.goto(`${url}/${link}`)
      await page.getByRole('dialog', { name: 'Sign in again' }).getByText('You have been signed out').waitFor()
      if (link === '#/users') await isUsable(t, page, 'the form over a view')
      await signInAgain(page)
      await content.first().waitFor()
      t.equal(page.url(), `${url}/${link}`)
    }
  })

  t.test('loses nothing that was typed', async (t) => {
    const page = await visit(t, '#/board/team?edit=1')
    await page.getByLabel('Name of the board').fill('Our team')
    expire()
    await saveBoard(page)
    await page.getByRole('dialog').press('Escape')
    await page.getByRole('dialog').press('Escape')
    await signInAgain(page)
    t.equal(await page.getByLabel('Name of the board').inputValue(), 'Our team')
    await page.getByRole('alert').getByText('Sign in, then do it again.').waitFor()
    await page.getByRole('button', { name: 'Save board' }).click()
    await page.getByRole('heading', { name: 'Our team' }).waitFor()
  })

  t.test('as its key was revoked is one', async (t) => {
    const key = await addKey('read')
    const page = await visit(t, '#/users', key)
    await page.getByRole('link', { name: 'ada' }).waitFor()
    await revokeKey(key)
    await page.getByRole('searchbox').fill('ad')
    await signInAgain(page)
    await page.getByRole('link', { name: 'ada' }).waitFor()
    t.match(page.url(), /search=ad$/)
  })

  t.test('shows nothing of one project to somebody who signs in to another', async (t) => {
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

t.test('tabs of one browser have one session', async (t) => {
  const { call, visitInTab, addKey } = await startSite(t)
  await call('PUT', '/public/boards/team', { name: 'Team', cards: [] })
  await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada' })
  const first = await visitInTab('#/board/team?edit=1')
  await first.getByLabel('Name of the board').fill('Our team')
  const second = await visitInTab('#/users')
  await second.getByRole('heading', { name: 'Users' }).waitFor()
  t.equal(await first.getByLabel('Name of the board').inputValue(), 'Our team', 'the same project goes on')

  const other = await visitInTab('#/users', await addKey('secret', 'elsewhere'))
  await other.getByText('elsewhere').first().waitFor()
  await second.getByText('elsewhere').first().waitFor()
  await first.bringToFront()
  await first.getByText('Another tab is signed in to elsewhere now.').waitFor()
  await signInAgain(first)
  t.equal(await first.getByLabel('Name of the board').inputValue(), 'Our team')
  await first.getByRole('button', { name: 'Save board' }).click()
  await first.getByRole('heading', { name: 'Our team' }).waitFor()
  await other.getByText('default').first().waitFor()
})

t.test('a browser that keeps no cookies is named as the reason', async (t) => {
  const { visit, url } = await startSite(t)
  const page = await visit(t, '#/users')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.route('**/session', async (route) => {
    const response = await route.fetch()
    await page.context().clearCookies()
    const { 'set-cookie': _, ...headers } = response.headers()
    await route.fulfill({ response, headers })
  })
  await page.getByLabel('Key of the project').fill(SECRET_KEY)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page
    .getByRole('alert')
    .getByText(`Allow cookies for ${new URL(url).host}`)
    .waitFor()
})
