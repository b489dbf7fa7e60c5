import type { Page } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { startSite } from './page.js'

/** Its numerals, date order and text direction all differ, so everything that follows the language is visible. */
const LANGUAGE = 'ar-EG'
const DAY = 86_400_000
const VIEWS = ['#/live', '#/users', '#/users/user-1', '#/data/events/signed%20up']

/** Opens a link, and returns the text of the view once it has loaded. */
async function readView(page: Page, url: string): Promise<string> {
  await page.goto('about:blank')
  await page.goto(url)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await until('the view', async () => (await page.locator('[data-loading], [aria-busy="true"]').count()) === 0)
  return (await page.getByRole('main').textContent()) ?? ''
}

t.test('dates and numbers are English, whatever the language of the browser', async (t) => {
  const { call, visit, url } = await startSite(t)
  const at = Date.now() - 400 * DAY
  const events = Array.from({ length: 1000 }, (_, i) => {
    return { event: 'signed up', distinct_id: `user-${i % 3}`, timestamp: at - i, properties: { n: i } }
  })
  for (let i = 0; i < 2; i++) await call('POST', '/public/track/batch', { events })
  const english = await visit(t, '#/live')
  const texts: string[] = []
  for (const view of VIEWS) texts.push(await readView(english, `${url}/${view}`))
  t.match(texts[0], /[A-Z][a-z]{2} \d+, 20\d\d/)
  t.match(texts[1], /400\sdays ago/)
  t.match(texts[2], /[A-Z][a-z]+day, [A-Z][a-z]+ \d+, 20\d\d.*\d:\d\d:\d\d\s[AP]M/)
  t.match(texts[3], /latest 2,000\sevents/)

  const page = await visit(t, '#/live', undefined, LANGUAGE)
  for (const [i, view] of VIEWS.entries()) t.equal(await readView(page, `${url}/${view}`), texts[i], view)
  t.equal(await page.evaluate('navigator.language'), LANGUAGE)
  t.equal(await page.evaluate('getComputedStyle(document.documentElement).direction'), 'ltr')
})
