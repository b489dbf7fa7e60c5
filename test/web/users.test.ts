import { readFile } from 'node:fs/promises'
import type { Page, Route } from 'playwright-core'
import t from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, readCells, type Site, startSite } from './page.js'

const DAY = 86_400_000
const NOW = Date.now()

async function track(
  { call }: Site,
  event: string,
  distinctId: string,
  { at = NOW, session_id, properties = '{}' }: { at?: number; session_id?: string; properties?: string } = {},
) {
  const head = JSON.stringify({ event, distinct_id: distinctId, timestamp: at, session_id }).slice(0, -1)
  const { statusCode, body } = await call('POST', '/public/track', `${head},"properties":${properties}}`)
  if (statusCode !== 200) throw new Error(body)
}

/** The cells of the list of users. */
const readRows = (page: Page) => readCells(page.getByRole('table', { name: 'Users' }).locator('tbody tr'))

/** The names of the events in display order. */
const shownEvents = (page: Page) =>
  page.getByRole('region', { name: 'Events' }).locator('li').getByRole('link').allTextContents()

t.test('the users view', async (t) => {
  const site = await startSite(t)
  const { call, visit, addKey } = site
  const hostile = '<b>"\u202e=1+1'
  const profile = '{"name":"Ada Lovelace","email":"ada@example.com","balance":12345678901234567890,"score":1.0}'
  await call('POST', '/public/users/identify', `{"distinct_id":"ada","properties":${profile}}`)
  await call('POST', '/public/users/identify', { distinct_id: 'grace', properties: { name: 'Grace' } })
  await call('POST', '/public/users/identify', {
    distinct_id: hostile,
    properties: { name: '<script>alert(1)</script>' },
  })
  await call('POST', '/public/users/alias', { distinct_id: 'ada', alias: 'device-7' })
  const headers = { 'x-api-key': await addKey('write') }
  for (const session_id of ['visit-1', 'visit-2']) {
    const session = { distinct_id: 'ada', session_id, properties: { at: session_id } }
    const { statusCode, body } = await call('POST', '/public/sessions/start', session, headers)
    t.equal(statusCode, 200, body)
  }
  await track(site, 'as device', 'device-7', { at: NOW - 2 * DAY })
  await track(site, 'yesterday', 'ada', { at: NOW - DAY })
  await track(site, 'today', 'ada', { at: NOW, session_id: 'visit-2', properties: '{"n":1.0}' })
  await track(site, 'anonymous', 'nobody-3', { at: NOW - 1 })

  t.test('lists and searches users', async (t) => {
    const page = await visit(t, '#/users')
    const links = page.getByRole('table', { name: 'Users' }).getByRole('link')
    await links.first().waitFor()
    const names = ['ada', 'nobody-3', '<b>"\\u202e=1+1', 'grace']
    t.strictSame(await links.allTextContents(), names, 'most recently seen first')
    const file = await download(page, 'Download CSV')
    t.match(file, /^\uFEFFUser,Name,Email,Last seen,Created,Updated\r\nada,/)
    t.match(file, /\r\nnobody-3,,,20[^,]+Z,,\r\n/)
    t.match(file, /\r\nada,Ada Lovelace,ada@example\.com,20[^,]+Z,20[^,]+Z,20[^,]+Z\r\n/)
    const rows = await readRows(page)
    t.match(rows[1]?.join(), /^nobody-3,[^,]*(ago|now),No profile$/)
    t.match(rows[3]?.join(), /^graceGrace,No events,[^,]*(ago|now)$/)
    const search = page.getByRole('searchbox')
    for (const text of ['LOVELACE', 'ada@example', 'device-7']) {
      await search.fill(text)
      await until(text, async () => (await links.allTextContents()).join() === 'ada')
    }
    await search.fill('Ada ')
    await page.waitForURL(/search=Ada$/)
    await search.pressSequentially('love')
    t.equal(await search.inputValue(), 'Ada love', 'the input is kept during the search')
    await page.waitForURL(/search=Ada(\+|%20)love$/)
    await search.fill('device-7')
    await page.waitForURL(/search=device-7$/)
    await page.locator('[aria-busy="false"]').waitFor()
    t.equal((await download(page, 'Download CSV')).split('\r\n').length, 1 + 1 + 1, 'only the search results')
    await search.fill('obody')
    await until('a user without a profile', async () => (await links.allTextContents()).join() === 'nobody-3')
    await search.fill('nobody-4')
    await page.getByText('No users match').waitFor()
  })

  t.test('filters users by a property, and shows the chosen ones, which a link keeps', async (t) => {
    const page = await visit(t, '#/users')
    const links = page.getByRole('table', { name: 'Users' }).getByRole('link')
    await links.first().waitFor()
    await page.getByRole('button', { name: '+ Filter' }).click()
    const filter = page.getByRole('group', { name: 'Filter', exact: true })
    const field = filter.getByRole('combobox', { name: 'Field' })
    await field.click()
    const offered = page.getByRole('listbox').getByRole('option')
    await offered.first().waitFor()
    for (const text of await offered.allTextContents()) t.match(text, /^(user\.|distinct_id)/, 'only what users have')
    await field.fill('user.name')
    await field.press('Enter')
    await filter.getByLabel('Comparison').selectOption('is set')
    await until('the users', async () => (await links.count()) === 3)
    await filter.getByLabel('Comparison').selectOption('is')
    const value = filter.getByRole('combobox', { name: 'Value' })
    await value.click()
    await until('the values, without how many events have them, also of a user without events', async () => {
      const texts = await offered.allTextContents()
      return ['Ada Lovelace', 'Grace'].every((name) => texts.includes(name))
    })
    await value.fill('Grace')
    await value.press('Enter')
    await until('the user', async () => (await links.allTextContents()).join() === 'grace')
    await page.getByRole('button', { name: 'Remove Grace' }).click()
    await value.fill('Ada Lovelace')
    await value.press('Enter')
    await until('the other user', async () => (await links.allTextContents()).join() === 'ada')

    const wrong = new URLSearchParams({ where: JSON.stringify(['is', 'user.nmae', ['Grace']]) })
    const empty = await visit(t, `#/users?${wrong}`)
    await empty.getByText('No profile has the property “nmae”. Did you mean “name”?').waitFor()

    const sample = '**/public/users?*limit=50'
    await page.route(sample, (route) =>
      route.fulfill({ status: 429, json: { status: 0, error: 'Busy.', code: 'busy' } }),
    )
    await page.getByText('Columns', { exact: true }).click()
    await page.getByRole('alert').getByText('Busy.').waitFor()
    t.equal(await page.getByText('No user has properties.').count(), 0)
    await page.unroute(sample)
    await page.getByRole('button', { name: 'Try again' }).click()
    for (const name of ['balance', 'score']) await page.getByRole('checkbox', { name }).check()
    await until('the columns', async () => (await readRows(page))[0]?.slice(1, 3).join() === '12345678901234567890,1.0')
    await checkAccessibility(t, page, 'filtered users, and the columns')
    await page.getByText('Columns', { exact: true }).click()
    const file = await download(page, 'Download CSV')
    t.match(file, /^\uFEFFUser,Name,Email,balance,score,Last seen,[^\r]*\r\nada,[^\r]*,12345678901234567890,1\.0,20/)

    const other = await visit(t, new URL(page.url()).hash)
    await until(
      'the same list',
      async () => (await readRows(other))[0]?.slice(1, 3).join() === '12345678901234567890,1.0',
    )
    await other.getByRole('button', { name: 'Remove this filter' }).click()
    await until('everybody', async () => (await readRows(other)).length === 4)
    t.equal((await readRows(other))[1]?.slice(1, 3).join(), '–,–', 'a property that is not set')
    t.match(new URL(other.url()).hash, /^#\/users\?columns=/, 'the columns stay')
    t.notMatch(other.url(), 'where')
  })

  t.test('shows the profile, aliases, sessions and events exactly as sent', async (t) => {
    const page = await visit(t, '#/users/device-7')
    await page.getByRole('heading', { name: 'ada', exact: true }).waitFor()
    await page.getByText('device-7 is another name of this user.').waitFor()
    const exact = page.getByRole('region', { name: 'Properties, exactly as stored' })
    t.equal(await exact.textContent(), profile)
    await until('the events', async () => (await shownEvents(page)).join() === 'today,yesterday,as device')
    await page.getByText('as device-7').waitFor()
    await page.getByRole('region', { name: 'Events' }).getByText('Session visit-2').waitFor()
    const sessions = page.getByRole('region', { name: 'Sessions' })
    await until('the sessions', async () => (await sessions.getByRole('group').count()) === 2)
    await checkAccessibility(t, page, 'a user')
  })

  t.test('visits are as long as their sessions, however many follow', async (t) => {
    const [visits, minutes] = [12, 5]
    for (let i = 0; i < visits; i++) {
      const session_id = `stay-${i}`
      await track(site, 'viewed', 'lea', { at: NOW - (minutes + visits - i) * 60_000, session_id })
      await call('POST', '/public/sessions/start', { distinct_id: 'lea', session_id }, headers)
    }
    const page = await visit(t, '#/users/lea')
    const timeline = page.getByRole('region', { name: 'Events' })
    await until('all lengths', async () => (await timeline.getByText(/1\sevent in \d+/).count()) === visits)
    await page.getByRole('region', { name: 'Sessions' }).waitFor()

    await track(site, 'viewed', 'max', { session_id: 'of events' })
    const answered = page.waitForResponse(/\/public\/sessions\?.*max/)
    await page.goto(page.url().replace(/#.*/, '#/users/max'))
    await timeline.getByText('Session of events').waitFor()
    await answered
    t.notMatch(await page.getByRole('main').textContent(), /Sessions|No sessions/, 'only the session of its event')
  })

  t.test('lists sessions that overlap, and events without one, separately', async (t) => {
    const at = NOW - DAY / 2
    const view = (path: string) =>
      JSON.stringify({ url: `https://shop.example${path}`, referrer: 'https://google.at/' })
    await track(site, '$pageview', 'eve', { at, session_id: 's1', properties: view('/a') })
    await track(site, 'invoice paid', 'eve', { at: at + 60_000 })
    await track(site, '$pageview', 'eve', { at: at + 90_000, session_id: 's2', properties: view('/laptop') })
    await track(site, '$pageview', 'eve', { at: at + 120_000, session_id: 's1', properties: view('/b') })
    const page = await visit(t, '#/users/eve')
    const timeline = page.getByRole('region', { name: 'Events' })
    await until('the headings', async () => (await timeline.locator('p').count()) === 2)
    t.strictSame(await timeline.locator('p').allTextContents(), [
      'Session s2, began at /laptop, from Google',
      'Session s1, 2\u00a0events in 2\u00a0min, began at /a, from Google',
    ])
    t.strictSame(await shownEvents(page), ['$pageview', 'invoice paid', '$pageview', '$pageview'])
  })

  t.test('loads the rest of a session with the earlier events', async (t) => {
    const at = NOW - DAY / 2
    for (let i = 0; i < 51; i++) {
      const properties = JSON.stringify({ url: `https://shop.example/${i}` })
      await track(site, '$pageview', 'long', { at: at + i * 1000, session_id: 'long', properties })
    }
    const page = await visit(t, '#/users/long')
    const timeline = page.getByRole('region', { name: 'Events' })
    await timeline.getByText(/^Session long, 50\sevents in 49\s\w+, may have begun earlier$/).waitFor()
    await page.getByRole('button', { name: 'Show earlier events' }).click()
    await timeline.getByText(/^Session long, 51\sevents in 50\s\w+, began at \/0$/).waitFor()
  })

  t.test("leaves out of sessions by gap what the project's filter does", async (t) => {
    const set = async (sessions: unknown) => {
      const { statusCode, body } = await call('PATCH', '/public/project', { sessions })
      t.equal(statusCode, 200, body)
    }
    const at = NOW - DAY / 2
    await track(site, 'opened', 'gus', { at, properties: '{"by":"hand"}' })
    await track(site, 'opened', 'gus', { at: at + 20 * 60_000, properties: '{"by":"cron"}' })
    await track(site, 'saved', 'gus', { at: at + 40 * 60_000, properties: '{"by":"hand"}' })
    await set({ gap: '30m', where: ['is', 'properties.by', ['hand']] })
    const page = await visit(t, '#/users/gus')
    const timeline = page.getByRole('region', { name: 'Events' })
    await until('two visits', async () => (await timeline.getByText('Visit', { exact: true }).count()) === 2)
    t.strictSame(await shownEvents(page), ['saved', 'opened', 'opened'])

    await timeline.getByRole('link', { name: 'opened' }).first().click()
    const dialog = page.getByRole('dialog', { name: 'opened' })
    await dialog.getByRole('button', { name: 'Edit properties' }).click()
    await dialog.getByRole('textbox').fill('{"by":"hand"}')
    await dialog.getByRole('button', { name: 'Save…' }).click()
    await page.getByRole('button', { name: 'Replace properties' }).click()
    await timeline.getByText(/^Visit, 3\sevents in /).waitFor()

    await set({ gap: '30m' })
    await page.reload()
    await timeline.getByText(/^Visit, 3\sevents in /).waitFor()
    await set(null)
  })

  t.test('shows events without visits as long as it is not known which belong to them', async (t) => {
    await track(site, 'opened', 'una', { properties: '{"by":"hand"}' })
    const sessions = { gap: '30m', where: ['is', 'properties.by', ['hand']] }
    t.equal((await call('PATCH', '/public/project', { sessions })).statusCode, 200)
    const page = await visit(t, '#/users')
    const main = page.getByRole('main')
    const asked: Route[] = []
    await page.route('**/public/query', (route) => void asked.push(route))
    await page.evaluate("location.hash = '#/users/una'")
    await until('the event', async () => (await shownEvents(page)).join() === 'opened')
    await until('the question', () => asked.length === 1)
    t.notMatch(await main.textContent(), /Visit/)
    const failed = page.waitForResponse('**/public/query')
    await asked[0]?.fulfill({ status: 400, json: { status: 0, error: 'too much' } })
    await (await failed).finished()
    t.strictSame(await shownEvents(page), ['opened'])
    t.notMatch(await main.textContent(), /Visit|too much/)

    await page.unroute('**/public/query')
    const events = Array.from({ length: 1001 }, (_, i) => {
      const eventId = `0190a5b0-0000-7000-8000-${String(i).padStart(12, '0')}`
      return { eventId, event: `e${i}`, distinct_id: 'una', timestamp: NOW - i * 1000, properties: {} }
    })
    const json = { status: 1, error: null, events, page: 1, limit: 50, hasMore: false, next: null, pending: 0 }
    await page.route('**/public/events?*', (route) => route.fulfill({ json }))
    const statuses: number[] = []
    page.on('response', (response) => {
      if (response.url().endsWith('/public/query')) statuses.push(response.status())
    })
    await page.reload()
    await until('all events', async () => (await shownEvents(page)).length === events.length)
    await until('all answers', () => statuses.length === 3)
    t.strictSame(statuses, [200, 200, 200], 'as many times at once as a filter takes')
    await call('PATCH', '/public/project', { sessions: null })
  })

  t.test('does not mistake a part of a list for all of it', async (t) => {
    const page = await visit(t, '#/data')
    const json = { status: 1, error: null, events: [], page: 1, limit: 50, hasMore: true, next: 'more', pending: 0 }
    await page.route('**/public/events?*', (route) => route.fulfill({ json }))
    await page.evaluate("location.hash = '#/users/ada'")
    await page.getByRole('button', { name: 'Show earlier events' }).waitFor()
    t.equal(await page.getByText('This user has no events.').count(), 0)

    const times = { created_at: null, updated_at: null, last_seen: null }
    let pages = 0
    await page.route(/\/public\/users\?.*limit=10+$/, async (route) => {
      pages++
      const length = Number(/\d+$/.exec(route.request().url()))
      const users = Array.from({ length }, (_, i) => ({ distinct_id: `${i}`, properties: {}, ...times }))
      await route.fulfill({ json: { users, hasMore: true } })
    })
    await page.evaluate("location.hash = '#/users'")
    t.equal((await download(page, 'Download CSV')).split('\r\n').length, 1 + 10_000 + 1)
    await page.getByText('Only the first 10,000 rows').waitFor()
    t.equal(pages, 1, 'users change places between two pages')
  })

  t.test('removes an alias with a secret key; it becomes a separate user', async (t) => {
    await call('POST', '/public/users/alias', { distinct_id: 'joint', alias: 'tablet/1' })
    await track(site, 'as joint', 'joint')
    await track(site, 'as tablet', 'tablet/1')
    const reader = await visit(t, '#/users/joint', await addKey('read'))
    await reader.getByRole('region', { name: 'Other names' }).getByText('tablet/1').waitFor()
    t.equal(await reader.getByRole('button', { name: /Remove/ }).count(), 0)

    const page = await visit(t, '#/users/joint')
    await until('both events', async () => (await shownEvents(page)).toSorted().join() === 'as joint,as tablet')
    const button = page.getByRole('button', { name: 'Remove tablet/1…' })
    await button.click()
    const dialog = page.getByRole('dialog', { name: 'Remove this name?' })
    t.match(
      await dialog.textContent(),
      /tablet\/1 will become a separate user again, no longer an alias of joint\. .* Nothing is deleted\./,
    )
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    t.match((await call('GET', '/public/users/joint/aliases')).json(), { aliases: ['tablet/1'] })
    await button.click()
    await dialog.getByRole('button', { name: 'Remove name' }).click()
    await until('the events of the others', async () => (await shownEvents(page)).join() === 'as joint')
    t.equal(await page.getByRole('region', { name: 'Other names' }).count(), 0)
    t.match((await call('GET', '/public/users/joint/aliases')).json(), { aliases: [] })
    await page.goto(page.url().replace(/#.*/, '#/users/tablet%2F1'))
    await until('its own events', async () => (await shownEvents(page)).join() === 'as tablet')
  })

  t.test('opens an event, which can be deleted', async (t) => {
    await track(site, 'to delete', 'grace')
    const page = await visit(t, '#/users/grace')
    await page.getByRole('link', { name: 'to delete' }).click()
    const dialog = page.getByRole('dialog', { name: 'to delete' })
    await dialog.getByRole('button', { name: 'Delete…' }).click()
    await page.getByRole('button', { name: 'Delete event' }).click()
    await page.getByText('This user has no events.').waitFor()
    t.match(page.url(), /#\/users\/grace$/)
  })

  t.test('reads many events page by page, merged over all names', async (t) => {
    await call('POST', '/public/users/alias', { distinct_id: 'many', alias: 'many-2' })
    const events = Array.from({ length: 130 }, (_, i) => {
      return { event: `e${i}`, distinct_id: i % 3 === 0 ? 'many-2' : 'many', timestamp: NOW - DAY + i }
    })
    await call('POST', '/public/track/batch', { events })
    const page = await visit(t, '#/users/many')
    const wanted = events.map(({ event }) => event).reverse()
    const link = await page.getByRole('link', { name: 'e129' }).getAttribute('href')
    await page.goto('about:blank')
    await page.goto(`${site.url}/${link}`)
    await page.getByRole('button', { name: 'Show earlier events' }).waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click()
    await until('the list', () => page.url().endsWith('#/users/many'))
    await page.evaluate('new Promise((done) => setTimeout(done, 50))')
    t.equal(await page.evaluate('scrollY'), 0, 'the page is where it was')
    await page.getByRole('button', { name: 'Show earlier events' }).click()
    await until('all events', async () => (await shownEvents(page)).length === events.length)
    t.strictSame(await shownEvents(page), wanted)
    t.equal(await page.getByRole('button', { name: 'Show earlier events' }).count(), 0)
  })

  t.test('shows HTML as text', async (t) => {
    const page = await visit(t, '#/users')
    await page.getByRole('link', { name: '<b>"\\u202e=1+1' }).click()
    await page.getByText('<script>alert(1)</script>', { exact: true }).waitFor()
    t.equal(decodeURIComponent(new URL(page.url()).hash), `#/users/${hostile}`)
  })

  t.test('exports a user, and erases it with a secret key', async (t) => {
    const reader = await visit(t, '#/users/ada', await addKey('read'))
    await reader.getByText('Sign in with a secret key to erase users.').waitFor()
    t.equal(await reader.getByRole('button', { name: /Erase/ }).count(), 0)
    const [download] = await Promise.all([
      reader.waitForEvent('download'),
      reader.getByRole('link', { name: 'Export' }).click(),
    ])
    const lines = (await readFile(await download.path(), 'utf8')).trimEnd().split('\n')
    t.equal(lines.length, 1 + 1 + 2 + 3, 'profile, alias, sessions and events')
    t.match(lines[0], /"balance":12345678901234567890/)

    const page = await visit(t, '#/users/ada')
    await page.getByRole('button', { name: 'Erase…' }).click()
    const go = page.getByRole('button', { name: 'Erase permanently' })
    t.ok(await go.isDisabled())
    await page.getByLabel(/type the user’s id/).fill('ad')
    t.ok(await go.isDisabled())
    await checkAccessibility(t, page, 'the question')
    await page.getByLabel(/type the user’s id/).fill('ada')
    const asked: Route[] = []
    await page.route('**/public/users/erase', (route) => void asked.push(route))
    await go.click()
    await until('the call', () => asked.length === 1)
    const dialog = page.getByRole('dialog')
    for (const name of ['Close', 'Cancel']) {
      t.ok(await dialog.getByRole('button', { name }).isDisabled(), `${name} does not undo what has begun`)
    }
    for (const _ of [1, 2]) await page.keyboard.press('Escape')
    await asked[0]?.fulfill({ status: 422, json: { status: 0, error: 'Too much.', code: 'query_too_large' } })
    await dialog.getByRole('alert').getByText('Too much.').waitFor()
    await page.unroute('**/public/users/erase')
    await go.click()
    await page.getByText('This user has been erased').waitFor()
    t.match(await page.getByRole('main').textContent(), /the profile, 3\sevents, 2\ssessions/)
    t.notMatch(
      await page.getByRole('main').textContent(),
      /The data was gone from the disk/,
      'files of old parts are still there',
    )
    t.equal((await call('GET', '/public/users/ada')).statusCode, 404)
  })

  t.test('shows nothing of another project', async () => {
    const page = await visit(t, '#/users', await addKey('read', 'no users'))
    await page.getByText('No users yet').waitFor()
    await page.goto(page.url().replace(/#.*/, '#/users/grace'))
    await page.getByText('No profile yet: this user was never identified.').waitFor()
    await page.getByText('This user has no events.').waitFor()
  })
})
