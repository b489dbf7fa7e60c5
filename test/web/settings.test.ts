import type { Page, Route } from 'playwright-core'
import t from 'tap'
import type { ListedKey } from '../../src/contract/key-schemas.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { COMMAND_LINE } from '../../src/model/audit-entry.js'
import { changeProject } from '../../src/projects/projects.js'
import { openStore } from '../../src/store/open.js'
import { SECRET_KEY, until } from '../helper.js'
import { checkAccessibility, download, startSite } from './page.js'

const WHOLE_KEY = /[psrw]k_[\w-]{43}/

const findKind = (page: Page, name: string) => page.getByRole('region', { name, exact: true })
const findDialog = (page: Page) => page.getByRole('dialog')

/** The text of a new key, from the dialog that shows it once. */
async function readNewKey(page: Page): Promise<string> {
  const text = await findDialog(page).getByRole('region', { name: 'New key' }).textContent()
  await findDialog(page).getByRole('button', { name: 'I have stored it' }).click()
  await findDialog(page).waitFor({ state: 'detached' })
  return text ?? ''
}

t.test('the keys of a project', async (t) => {
  const site = await startSite(t)
  const { app, visit, addKey, key: secret } = site
  const list = async (key = secret) => {
    const response = await app.inject({ url: '/public/keys', headers: { 'x-api-key': key } })
    return response.json().keys as ListedKey[]
  }
  const track = async (apiKey: string, origin = 'https://shop.example') => {
    const payload = { apiKey, event: 'e', distinct_id: 'u' }
    return (await app.inject({ method: 'POST', url: '/public/track', payload, headers: { origin } })).statusCode
  }

  t.test('a key is created with the keyboard, and shown once', async (t) => {
    const page = await visit(t, '#/settings', secret)
    await findKind(page, 'Secret keys').getByText('You are signed in with it').waitFor()
    await page.getByRole('button', { name: 'Create key…' }).press('Enter')
    await checkAccessibility(t, page, 'the form of a new key')
    const dialog = findDialog(page)
    t.equal(await page.evaluate('document.activeElement.labels[0].textContent'), 'Label')
    await dialog.getByLabel('Label').fill('Shop website')
    await dialog.getByLabel('Only on pages of these sites').fill('https://shop.example/cart\nhttps://b.example')
    await dialog.getByLabel('Events only').press('Space')
    await dialog.getByLabel('Label').press('Enter')
    await dialog.getByText('Store it now').waitFor()
    const line = await dialog.getByRole('region', { name: 'The line for a website' }).textContent()
    const key = await readNewKey(page)
    t.match(key, /^wk_[\w-]{43}$/)
    t.equal(line, `<script defer src="${site.url}/t.js" data-key="${key}"></script>`)
    t.equal(await track(key), 200)
    t.equal(await track(key, 'https://other.example'), 403)
    const item = findKind(page, 'Write keys').getByRole('listitem')
    await item.getByText('Shop website').waitFor()
    await item.getByText('Sends events only · https://b.example, https://shop.example').waitFor()
    t.notMatch(await page.content(), WHOLE_KEY)
    const log = findKind(page, 'Changes').getByRole('listitem')
    await log.getByText(/^Created the write key “Shop website” wk_/).waitFor()
    await page.setViewportSize({ width: 390, height: 844 })
    const link = await page.getByRole('link', { name: 'Settings', exact: true }).boundingBox()
    t.ok(link && link.x + link.width <= 390, 'all views fit in the navigation of a phone')
  })

  t.test('an error names the field, and the form keeps its input', async (t) => {
    const page = await visit(t, '#/settings', secret)
    await page.getByRole('button', { name: 'Create key…' }).click()
    const dialog = findDialog(page)
    await dialog.getByLabel('Only on pages of these sites').fill('shop.example')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    const alert = dialog.getByRole('alert')
    await alert.getByText(/^Only on pages of these sites, number 1, must be an origin as browsers send it/).waitFor()
    t.equal(await dialog.getByLabel('Only on pages of these sites').inputValue(), 'shop.example')
    await dialog.getByLabel('Kind').selectOption('Read')
    t.equal(await dialog.getByLabel('Only on pages of these sites').count(), 0, 'a read key is in no page')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    t.match(await readNewKey(page), /^rk_/)
  })

  t.test('a key is renamed, rotated and revoked', async (t) => {
    const page = await visit(t, '#/settings', secret)
    const old = await addKey('write')
    await page.reload()
    const writeKeys = findKind(page, 'Write keys')
    const id = old.slice(0, 11)
    await writeKeys.getByRole('button', { name: `Edit ${id}…` }).click()
    await findDialog(page).getByLabel('Label').fill('App')
    await findDialog(page).getByRole('button', { name: 'Save' }).click()
    await writeKeys.getByRole('button', { name: 'Rotate App…' }).click()
    await findDialog(page).getByRole('button', { name: 'Rotate key' }).click()
    await findDialog(page).getByText(`The old key, ${id}, works until`).waitFor()
    const fresh = await readNewKey(page)
    for (const key of [old, fresh]) t.equal(await track(key), 200)
    const ending = writeKeys.getByRole('listitem').filter({ hasText: id })
    await ending.getByText(/Replaced: works for another (23\s*h|1\s*d)/).waitFor()
    t.equal(await ending.getByRole('button', { name: /^Rotate/ }).count(), 0, 'it is being replaced already')
    await ending.getByRole('button', { name: 'Revoke App…' }).click()
    await findDialog(page).getByText('refused within 10 seconds').waitFor()
    t.equal(await track(old), 200, 'nothing is revoked before the confirmation')
    await findDialog(page).getByRole('button', { name: 'Revoke key' }).click()
    await ending.waitFor({ state: 'detached' })
    t.equal(await track(old), 401)
    await page.getByText(/^Revoked keys \(\d+\)$/).click()
    await page.getByRole('group').getByText(id, { exact: true }).waitFor()
    await findKind(page, 'Changes').getByText(`Revoked “App” ${id}`).waitFor()
    await checkAccessibility(t, page, 'revoked keys')
  })

  t.test("the last secret key is not revoked, and revoking one's own signs out", async (t) => {
    const own = await addKey('secret', 'alone')
    const page = await visit(t, '#/settings', own)
    const revoke = async (id: string) => {
      await page.getByRole('button', { name: `Revoke ${id}…` }).click()
      await findDialog(page).getByText('You are signed in with this key, so you will be signed out.').waitFor()
      await findDialog(page).getByRole('button', { name: 'Revoke key' }).click()
    }
    await revoke(own.slice(0, 11))
    await findDialog(page).getByRole('alert').getByText('is the last secret key').waitFor()
    t.match(await list(own), [{ state: 'valid' }])
    await findDialog(page).getByRole('button', { name: 'Cancel' }).click()
    await addKey('secret', 'alone')
    await revoke(own.slice(0, 11))
    await page.getByLabel('Key of the project').waitFor()
  })

  t.test('keys from the environment show where to change them', async (t) => {
    const page = await visit(t, '#/settings', SECRET_KEY)
    const item = findKind(page, 'Secret keys').getByRole('listitem').filter({ hasText: 'SECRET_KEY' })
    await item.getByText('Set in the environment of the service.').waitFor()
    t.equal(await item.getByRole('button').count(), 0)
  })

  t.test('a read key sees a sentence instead', async (t) => {
    const page = await visit(t, '#/settings', await addKey('read'))
    await page.getByRole('heading', { name: 'Settings need a secret key' }).waitFor()
    t.equal(await page.getByRole('button', { name: 'Create key…' }).count(), 0)
  })

  t.test('labels that look like HTML are text', async (t) => {
    const headers = { 'x-api-key': secret }
    const label = '<img src=x onerror=alert(1)>'
    await app.inject({ method: 'POST', url: '/public/keys', headers, payload: { kind: 'read', label } })
    const page = await visit(t, '#/settings', secret)
    await findKind(page, 'Read keys').getByText(label).waitFor()
    await findKind(page, 'Changes').getByText(`“${label}”`).waitFor()
  })
})

t.test('the settings of a project', async (t) => {
  const site = await startSite(t)
  const { app, visit, key: secret } = site
  const headers = { 'x-api-key': secret }
  const read = async () => (await app.inject({ url: '/public/project', headers })).json().project
  const change = (payload: object) => app.inject({ method: 'PATCH', url: '/public/project', headers, payload })
  const track = (event: string, timestamp: number) =>
    app.inject({ method: 'POST', url: '/public/track', headers, payload: { event, distinct_id: 'u', timestamp } })

  t.test('display settings are changed with the keyboard, and only those are sent', async (t) => {
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Project')
    const save = form.getByRole('button', { name: 'Save' })
    await form.getByLabel('Display name').fill('Our shop')
    const zone = form.getByRole('combobox', { name: 'Time zone' })
    await zone.fill('vienna')
    await form.getByRole('option', { name: 'Europe/Vienna' }).waitFor()
    await zone.press('Enter')
    await form.getByLabel('Weeks begin on').selectOption('Sunday')
    await form.getByLabel('First view').selectOption('Explore')
    await form.getByLabel('Currency').fill('eur')
    await form.getByLabel('Number format').selectOption('1.234,5')
    const [request] = await Promise.all([
      page.waitForRequest((request) => request.method() === 'PATCH'),
      form.getByLabel('Display name').press('Enter'),
    ])
    const set = {
      name: 'Our shop',
      timezone: 'Europe/Vienna',
      week_start: 'sunday',
      first_view: 'explore',
      currency: 'EUR',
      number_format: '1.234,5',
    }
    t.strictSame(request.postDataJSON(), { ...set, revision: 0 })
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.ok(await save.isDisabled(), 'there is nothing to save any more')
    t.match(await read(), { ...set, revision: 1 })
    await findKind(page, 'Changes').getByText('the time zone from UTC to Europe/Vienna').waitFor()
    await form.getByLabel('Currency').fill('E')
    await save.click()
    await form
      .getByRole('alert')
      .getByText(/^Currency must be an ISO 4217 code/)
      .waitFor()
    t.notMatch(await form.getByRole('alert').textContent(), '/currency')
    await form.getByLabel('Currency').fill('')
    await save.click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.match(await read(), { currency: null, revision: 2 })
  })

  t.test('the definition of visits, and the fields of pages', async (t) => {
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Visits and pages')
    const save = form.getByRole('button', { name: 'Save' })
    await form.getByLabel('Tell visits apart').selectOption('By pauses')
    await form.getByLabel('End a visit after a pause of').fill('2 hours')
    await save.click()
    await form.getByRole('alert').getByText('from "1m" to "24h"').waitFor()
    await form.getByLabel('End a visit after a pause of').fill('2h')
    await form.getByLabel('Page views').fill('$pageview\nopened\n')
    await form.getByText('Properties of pages').click()
    await form.getByLabel('Source').fill('utm_source\nproperties.from.site\n["properties","a.b"]')
    await checkAccessibility(t, page, 'visits and pages')
    await save.click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    const source = ['properties.utm_source', 'properties.from.site', ['properties', 'a.b']]
    t.match(await read(), { sessions: { gap: '2h' }, page_views: ['$pageview', 'opened'], page_fields: { source } })
    await findKind(page, 'Changes').getByText('what a visit is from session ids to pauses of 2 hours').waitFor()
    await form.getByRole('button', { name: 'Use the defaults' }).click()
    await save.click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    const { sessions, page_views, page_fields } = DEFAULT_SETTINGS
    t.match(await read(), { sessions, page_views, page_fields })
  })

  t.test('properties of pages are typed one key at a time', async (t) => {
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Visits and pages')
    await form.getByText('Properties of pages').click()
    const title = form.getByLabel('Title')
    const typed = 'properties.ref\nname\n["properties","a.b"]'
    await title.fill('')
    await title.pressSequentially(typed)
    t.equal(await title.inputValue(), typed)
    await title.press('Backspace')
    await title.press('Backspace')
    t.equal(await title.inputValue(), typed.slice(0, -2))
    await title.pressSequentially('"]')
    await title.press('ControlOrMeta+Home')
    await title.pressSequentially('first\n')
    t.equal(await title.inputValue(), `first\n${typed}`)
    await change({ page_fields: { source: ['properties.theirs'] } })
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByRole('status').getByText('Someone else changed the settings').waitFor()
    await until('their field', async () => (await form.getByLabel('Source').inputValue()) === 'properties.theirs')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    const fields = ['properties.first', 'properties.ref', 'properties.name', ['properties', 'a.b']]
    const { title: ours, source: theirs } = (await read()).page_fields
    t.strictSame([ours, theirs], [fields, ['properties.theirs']])
    await change({ page_fields: null })
  })

  t.test('a stored filter survives choosing between ids and pauses', async (t) => {
    const sessions = { gap: '2h', where: ['set', 'properties.url'] }
    t.equal((await change({ sessions })).statusCode, 200)
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Visits and pages')
    const way = form.getByLabel('Tell visits apart')
    await way.selectOption('By session ids')
    await way.selectOption('By pauses')
    t.equal(await form.getByLabel('End a visit after a pause of').inputValue(), '2h')
    await form.getByText('Of the events that match').waitFor()
    t.ok(await form.getByRole('button', { name: 'Save' }).isDisabled(), 'nothing has changed')
    await change({ sessions: null })
  })

  t.test("somebody else's change is shown, and nothing is lost", async (t) => {
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Project')
    await form.getByLabel('Display name').fill('Mine')
    await change({ currency: 'USD' })
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByRole('status').getByText('Someone else changed the settings').waitFor()
    await until('the new settings', async () => (await form.getByLabel('Currency').inputValue()) === 'USD')
    t.equal(await form.getByLabel('Display name').inputValue(), 'Mine')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.match(await read(), { name: 'Mine', currency: 'USD' })
  })

  t.test('what is typed while settings are being saved stays', async (t) => {
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Project')
    const name = form.getByLabel('Display name')
    const held: Route[] = []
    await page.route('**/public/project', (route) =>
      route.request().method() === 'PATCH' ? void held.push(route) : route.continue(),
    )
    await name.fill('First')
    await form.getByRole('button', { name: 'Save' }).click()
    await until('the call', () => held.length === 1)
    await name.fill('Second')
    await held[0]?.continue()
    await page.unroute('**/public/project')
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.equal(await name.inputValue(), 'Second')
    await form.getByRole('button', { name: 'Save' }).click()
    await until('the second name', async () => (await read()).name === 'Second')
  })

  t.test('before data is removed, a dialog says how much', async (t) => {
    const day = 86_400_000
    await track('old', Date.now() - 100 * day)
    await track('new', Date.now())
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'How long data is kept')
    const events = form.getByRole('group', { name: 'Events' })
    await events.getByLabel('Kept').selectOption('A number of days')
    await events.getByLabel('Number of days').fill('60')
    await form.getByRole('button', { name: 'Save' }).click()
    await findDialog(page)
      .getByText(/^Events older than 60.days will be removed: 1.event, from .+\.$/)
      .waitFor()
    t.equal((await read()).keep.events, null, 'nothing is changed before the confirmation')
    await findDialog(page).getByRole('button', { name: 'Cancel' }).click()
    await form.getByRole('button', { name: 'Save' }).click()
    await findDialog(page).getByRole('button', { name: 'Save and remove' }).click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.equal((await read()).keep.events, '60d')
    await findKind(page, 'Changes')
      .getByText(/how long events are kept from forever to 60.days/)
      .waitFor()
    await events.getByLabel('Kept').selectOption('Forever')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.equal((await read()).keep.events, null, 'a longer time needs no question')
  })

  t.test('a number is saved as it is shown, or not at all', async (t) => {
    const page = await visit(t, '#/settings', secret)
    page.on('request', (request) => {
      if (request.method() === 'PATCH') t.fail(`the page sent ${request.postData()}`)
    })
    const check = async (section: string, kind: string, [choice, option]: string[], [label = '', max]: string[]) => {
      const form = findKind(page, section)
      const group = form.getByRole('group', { name: kind, exact: true })
      const save = form.getByRole('button', { name: 'Save' })
      await group.getByLabel(choice ?? '').selectOption(option ?? '')
      const field = group.getByLabel(label)
      for (const text of ['1,000', '1 000', '365.25', '1e6', 'abc', '0', '']) {
        await field.fill('')
        await field.pressSequentially(text)
        await field.blur()
        t.equal(await field.inputValue(), text, `${kind}: “${text}” stays as typed`)
        t.equal(await field.getAttribute('aria-invalid'), 'true', `${kind}: “${text}” is marked`)
        await group.getByText(`Enter a whole number from 1 to ${max}, in digits only.`).waitFor()
        t.ok(await save.isDisabled(), `${kind}: “${text}” cannot be saved`)
        await field.press('Enter')
      }
      await checkAccessibility(t, page, `an invalid number of ${kind}`)
      await field.fill(' 25 ')
      t.equal(await field.getAttribute('aria-invalid'), 'false')
      t.ok(await save.isEnabled(), 'a correct number can be saved')
      await field.fill('x')
      t.ok(await save.isDisabled())
    }
    await check('How long data is kept', 'Events', ['Kept', 'A number of days'], ['Number of days', '99999'])
    const limit = ['At most', String(Number.MAX_SAFE_INTEGER)]
    await check('Quotas and usage', 'Events per day', ['Limit', 'Soft limit'], limit)
    const kept = findKind(page, 'How long data is kept')
    const events = kept.getByRole('group', { name: 'Events', exact: true })
    await kept.getByRole('group', { name: 'Profiles' }).getByLabel('Kept').selectOption('A number of years')
    await events.getByLabel('Kept').selectOption('Forever')
    t.ok(await kept.getByRole('button', { name: 'Save' }).isEnabled(), 'a field that is gone holds nothing up')
  })

  t.test('quotas can be set, and their usage is shown', async (t) => {
    await track('new', Date.now())
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Quotas and usage')
    const perDay = form.getByRole('group', { name: 'Events per day' })
    await perDay.getByLabel('Limit').selectOption('Hard limit')
    await perDay.getByLabel('At most').fill('5000')
    const names = form.getByRole('group', { name: 'New event names per day' })
    t.equal(await names.getByRole('option', { name: 'Hard limit' }).count(), 0)
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.strictSame((await read()).quotas.events_per_day, { limit: 5000, mode: 'hard' })
    const usage = findKind(page, 'Usage')
    await usage.getByText(/^Events per day: \d+ of 5\.000 \(.+\), hard limit$/).waitFor()
    await findKind(page, 'Changes').getByText('the quota of events per day from none to 5.000 (hard)').waitFor()
    const today = new Date().toISOString().slice(0, 8)
    await usage.getByRole('rowheader', { name: today }).first().waitFor()
    t.match(
      await download(page, 'Download CSV'),
      /^\uFEFF?day,events,bytes,stored_bytes,read_cpu_seconds\r\n\d{4}-\d\d-\d\d,\d+,/,
    )
  })

  t.test('a quota of the operator is shown, and cannot be changed', async (t) => {
    const quotas = { events_per_month: { limit: 70_000, mode: 'hard', locked: true } } as const
    const { shards, close } = await openStore(site.config)
    await changeProject(shards, site.project, { quotas }, { by: COMMAND_LINE })
    await close()
    await until('the service to know', async () => (await read()).quotas.events_per_month)
    const page = await visit(t, '#/settings', secret)
    const form = findKind(page, 'Quotas and usage')
    const perMonth = form.getByRole('group', { name: 'Events per month' })
    await perMonth.getByText(/^70.000, hard limit$/).waitFor()
    await perMonth.getByText('Set by the operator').waitFor()
    t.equal(await perMonth.getByRole('combobox').count(), 0)
    await findKind(page, 'Changes')
      .getByText(/the quota of events per month from none to 70.000 \(hard, locked\)/)
      .waitFor()
    await checkAccessibility(t, page, 'a quota of the operator')
    const names = form.getByRole('group', { name: 'New event names per day' })
    await names.getByLabel('Limit').selectOption('Soft limit')
    await form.getByRole('button', { name: 'Save' }).click()
    await form.getByRole('status').getByText('Saved.').waitFor()
    t.match((await read()).quotas, quotas, 'others can be changed')
  })
})

/** A link to Explore with the sum of a property of `paid`. */
function linkToSum(property: string, more: object): string {
  const series = [{ event: 'paid', metric: 'sum', property: `properties.${property}` }]
  return `#/explore?q=${encodeURIComponent(JSON.stringify({ kind: 'series', series, ...more }))}`
}

t.test('the page follows the settings of its project', async (t) => {
  const site = await startSite(t)
  const { call, visit, url } = site
  // In Tokyo, it is the next morning; in the browser's time zone, the night before.
  const night = Date.UTC(2025, 11, 31, 20, 5, 7)
  const now = Date.now()
  const events = Array.from({ length: 1234 }, (_, i) => ({ event: 'bought', distinct_id: 'ada', timestamp: now - i }))
  await call('POST', '/public/track/batch', { events: events.slice(0, 1000) })
  await call('POST', '/public/track/batch', { events: events.slice(1000) })
  await call('POST', '/public/track', { event: 'bought', distinct_id: 'grace', timestamp: night })
  const set = { name: 'Our <b>shop</b>', timezone: 'Asia/Tokyo', week_start: 'sunday', number_format: '1.234,5' }
  await call('PATCH', '/public/project', { ...set, first_view: 'explore' })
  const range = (page: Page) => page.getByRole('main').locator('summary').filter({ hasText: 'time zone and weeks' })
  const weeks = (page: Page) => page.getByRole('combobox', { name: 'Weeks begin on' })

  t.test('a link without a view opens the first one, with a question of the project', async (t) => {
    const page = await visit(t, '')
    await page.getByRole('heading', { name: 'Explore' }).waitFor()
    await page.getByRole('link', { name: 'Explore' }).and(page.locator('[aria-current="page"]')).waitFor()
    const header = page.getByRole('banner')
    await header.getByText('Our <b>shop</b>').waitFor()
    await header.getByText('Times in Asia/Tokyo').waitFor()
    await range(page).getByText('Asia/Tokyo').press('Enter')
    t.equal(await weeks(page).inputValue(), 'sunday')
    const [request] = await Promise.all([
      page.waitForRequest('**/public/query'),
      page.getByRole('combobox', { name: 'Interval' }).selectOption('total'),
    ])
    t.match(request.postDataJSON(), { timezone: 'Asia/Tokyo', week_start: 'sunday' })
    await page.getByRole('button', { name: /^1\.234:/ }).waitFor()
    t.notMatch(page.url(), /timezone|week_start/, 'the question keeps following the project')
    await page.getByRole('link', { name: 'Boards', exact: true }).press('Enter')
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    await page.getByRole('link', { name: 'Tallyhouse', exact: true }).press('Enter')
    await page.getByRole('heading', { name: 'Explore' }).waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
  })

  t.test('boards, users and their events follow them, too', async (t) => {
    const page = await visit(t, '#/overview')
    await range(page).getByText('Asia/Tokyo').click()
    t.equal(await weeks(page).inputValue(), 'sunday')
    await page.goto(`${url}/#/users/grace`)
    await page.getByRole('heading', { name: 'Thursday, January 1, 2026' }).waitFor()
    await page.getByText(/^5:05:07.AM$/).waitFor()
  })

  t.test('amounts are shown in its currency, also on a board', async (t) => {
    await call('POST', '/public/track', { event: 'paid', distinct_id: 'ada', properties: { price: 1234.5 } })
    const page = await visit(t, linkToSum('price', { interval: 'none' }))
    await page.getByRole('button', { name: /^1\.234,5:/ }).waitFor()
    const amounts = page.getByRole('checkbox', { name: 'Amounts in EUR' })
    t.equal(await amounts.count(), 0, 'the project has no currency yet')
    await call('PATCH', '/public/project', { currency: 'EUR' })
    await page.reload()
    await amounts.press('Space')
    await page.getByRole('button', { name: /^€1\.234,50:/ }).waitFor()
    await page.getByRole('radio', { name: 'Table' }).check()
    await page.getByRole('region', { name: 'Table: Numbers' }).getByText('€1.234,50').waitFor()
    t.match(await download(page, 'Download CSV'), /,1234\.5\r\n$/)
    await page.getByRole('radio', { name: 'Numbers' }).check()
    await page.getByRole('button', { name: 'Add to board' }).click()
    await page.getByLabel('Title of the card').fill('Revenue')
    await page.getByLabel('Name of the new board').fill('Money')
    await page.getByRole('button', { name: 'Add', exact: true }).click()
    await page.getByRole('status').getByRole('link', { name: 'Money' }).click()
    await page.getByRole('button', { name: /^€1\.234,50:/ }).waitFor()
    await page.goto(`${url}/${linkToSum('price', { series: [{ event: 'paid' }] })}&money=1`)
    await page.getByRole('button', { name: 'Download CSV' }).waitFor()
    t.equal(await amounts.count(), 0, 'a count is no amount')
  })

  t.test('a change shows everywhere without reloading the page', async (t) => {
    const page = await visit(t, '#/settings')
    const form = findKind(page, 'Project')
    await form.getByRole('combobox', { name: 'Time zone' }).fill('vienna')
    await form.getByRole('option', { name: 'Europe/Vienna' }).click()
    await form.getByLabel('Number format').selectOption('1 234,5')
    await form.getByLabel('First view').selectOption('Users')
    await form.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('banner').getByText('Times in Europe/Vienna').waitFor()
    await page.getByRole('link', { name: 'Data' }).click()
    await page.getByRole('cell', { name: '1\u00a0235' }).waitFor()
    await page.getByRole('link', { name: 'Tallyhouse', exact: true }).click()
    await page.getByRole('heading', { name: 'Users', exact: true }).waitFor()
  })
})
