import type { Page, Route } from 'playwright-core'
import t, { type Test } from 'tap'
import { until } from '../helper.js'
import { checkAccessibility, download, installClock, type Site, startSite } from './page.js'

const DAY_MS = 86_400_000
const USERS = { kind: 'series', series: [{ event: '*', metric: 'users' }] }
/** The service takes it, but it has no chart. */
const LIST = { kind: 'users', of: USERS, cell: {} }

const findCards = (page: Page) => page.getByRole('article')
const readTitles = async (page: Page) =>
  await findCards(page).evaluateAll((all: { ariaLabel: string | null }[]) => all.map((one) => one.ariaLabel))
const findAnswer = (page: Page, title: string) => page.getByRole('region', { name: `Answer of ${title}` })

/** Three users in the last days, with more views than purchases. */
async function track(site: Site): Promise<void> {
  const events = [0, 1, 2].flatMap((user) =>
    [1, 2, 3].flatMap((days) => {
      const common = { distinct_id: `user ${user}`, timestamp: Date.now() - days * DAY_MS }
      return [
        { event: 'looked', ...common },
        ...(days === 1 && user < 2 ? [{ event: 'bought', ...common, timestamp: common.timestamp + 1000 }] : []),
      ]
    }),
  )
  const response = await site.call('POST', '/public/track/batch', { events })
  if (response.statusCode !== 200) throw new Error(response.body)
}

async function put(t: Test, site: Site, path: string, body: object): Promise<void> {
  const response = await site.call('PUT', `/public${path}`, body)
  t.equal(response.statusCode, 200, response.body)
}

t.test('boards', async (t) => {
  const site = await startSite(t)
  await track(site)
  const { visit, call, addKey } = site
  const boards = async () => (await call('GET', '/public/boards')).json().boards
  const board = async () => {
    const [{ id }] = await boards()
    return (await call('GET', `/public/boards/${id}`)).json().board
  }
  const page = await visit(t, '#/')

  t.test('a project without boards gets a default board, which can be saved', async (t) => {
    await findAnswer(page, 'Totals').getByText('11', { exact: true }).waitFor()
    await findAnswer(page, 'Funnel').getByRole('button', { name: '2: bought' }).waitFor()
    t.equal(
      await download(page, 'CSV of Top events'),
      '\uFEFFSeries,event,Total\r\nAny event,looked,9\r\nAny event,bought,2\r\n',
    )
    await checkAccessibility(t, page, 'the overview')
    await page.getByRole('button', { name: 'Save as board' }).click()
    await page.getByLabel('Name', { exact: true }).fill('Ours')
    await page.getByRole('button', { name: 'Save board' }).click()
    await page.getByRole('heading', { name: 'Edit board', level: 1 }).waitFor()
    t.match(page.url(), /#\/board\/[0-9a-f]+\?edit=1$/)
    t.match(await boards(), [{ name: 'Ours', count: 6 }])
  })

  t.test('a board editor moves, resizes, renames and removes cards, and saves them together', async (t) => {
    await page.getByRole('button', { name: 'Move Active users forward', exact: true }).press('Enter')
    const moved = ['Totals', 'Total events', 'Active users', 'Top events']
    t.strictSame((await readTitles(page)).slice(0, 4), moved)
    t.equal(
      await page.evaluate('document.activeElement.ariaLabel'),
      'Move Active users forward',
      'the button keeps the focus',
    )
    await page.getByRole('status').getByText('Active users is card 3 of 6.').waitFor({ state: 'attached' })
    const handle = page.getByRole('article', { name: 'Active users', exact: true }).locator('[draggable]')
    await handle.dragTo(page.getByRole('article', { name: 'Totals', exact: true }))
    t.equal((await readTitles(page))[0], 'Active users', 'dragged')
    await page.getByLabel('Width of Active users', { exact: true }).selectOption('Full width')
    await page.getByRole('button', { name: 'Remove Total events', exact: true }).click()
    await page.getByRole('button', { name: 'Remove Retention' }).click()
    await page.getByLabel('Title of the card').nth(0).fill('Everybody')
    const boardName = page.getByLabel('Name of the board')
    await boardName.fill('All of ours')
    await checkAccessibility(t, page, 'a board that is edited')
    t.match(await board(), { name: 'Ours', cards: { length: 6 } }, 'nothing is saved yet')
    const held: Route[] = []
    await page.route('**/public/boards/*', (route) =>
      route.request().method() === 'PUT' ? void held.push(route) : route.continue(),
    )
    await page.getByRole('button', { name: 'Save board' }).click()
    await until('the call', () => held.length === 1)
    await boardName.focus()
    await page.keyboard.type('!')
    t.equal(await boardName.inputValue(), 'All of ours', 'nothing can be changed that would be lost')
    await held[0]?.continue()
    await page.unroute('**/public/boards/*')
    await page.getByRole('heading', { name: 'All of ours' }).waitFor()
    const { name, cards } = await board()
    t.equal(name, 'All of ours')
    t.strictSame(
      cards.map(({ name }: { name: string }) => name),
      ['Everybody', 'Totals', 'Top events', 'Funnel'],
    )
    t.equal(cards[0].width, 4)
  })

  t.test('a board editor asks before unsaved changes are discarded', async (t) => {
    const hash = () => new URL(page.url()).hash
    const name = page.getByLabel('Name of the board')
    const dialog = page.getByRole('dialog', { name: 'Leave without saving?' })
    const answer = async (button: string) => {
      await dialog.getByRole('button', { name: button }).click()
      await dialog.waitFor({ state: 'detached' })
    }
    const unload = 'dispatchEvent(new Event("beforeunload", { cancelable: true }))'
    await page.getByRole('link', { name: 'Users', exact: true }).click()
    await page.getByRole('link', { name: 'Boards', exact: true }).click()
    await page.getByRole('button', { name: 'Edit board' }).click()
    await name.waitFor()
    const place = hash()
    t.equal(await page.evaluate(unload), true, 'nothing was changed yet')
    await name.fill('Half a name')
    await until('the browser to ask before it closes the page', async () => !(await page.evaluate(unload)))
    await page.getByRole('link', { name: 'Live', exact: true }).click()
    await answer('Cancel')
    t.equal(hash(), place)
    t.equal(await name.inputValue(), 'Half a name')
    await page.goBack()
    await answer('Cancel')
    await until('the place of the editor', () => hash() === place)
    await page.getByRole('link', { name: 'Live', exact: true }).click()
    await answer('Discard changes')
    await page.getByRole('heading', { name: 'Live', exact: true }).waitFor()
    await page.goBack()
    await name.waitFor()
    t.equal(await name.inputValue(), 'All of ours')
    await name.fill('Half a name')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await answer('Discard changes')
    await page.getByRole('heading', { name: 'All of ours' }).waitFor()
  })

  t.test('a saved question can be added as a card that links to it', async (t) => {
    await put(t, site, '/questions/people', {
      name: 'People',
      question: { ...USERS, interval: 'none' },
      // The board's own.
      display: { as: 'number', range: '7d' },
    })
    await page.getByRole('button', { name: 'Edit board' }).click()
    await page.getByRole('button', { name: 'Add card' }).click()
    await page.getByRole('button', { name: 'look for it here' }).click()
    await page.getByRole('button', { name: 'Add People' }).click()
    await page.getByText('“People” is on the board now.').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Save board' }).click()
    await findAnswer(page, 'People').getByText('3', { exact: true }).waitFor()
    const link = page.getByRole('link', { name: 'People' })
    await page.evaluate(`location.hash += '?where=["set","properties.x"]'`)
    const href = async () => decodeURIComponent((await link.getAttribute('href')) ?? '')
    await until('the filter', async () => (await href()).includes('"properties.x"'))
    t.notMatch(await href(), 'saved=', 'saving the filter of a board in its question would change other boards')
    await page.goBack()
    await until('no filter', async () => !(await href()).includes('"properties.x"'))
    await link.click()
    await page.getByRole('heading', { name: 'Explore' }).waitFor()
    t.match(page.url(), /saved=people/)
    await page.goBack()
    await call('DELETE', '/public/questions/people')
    await page.reload()
    await until('the board without the card', async () => {
      const titles = await readTitles(page)
      return titles.includes('Everybody') && !titles.includes('People')
    })
  })

  t.test('saving a board after somebody else offers both versions', async (t) => {
    const theirs = async (name: string, more: object[] = []) => {
      const { id, cards } = await board()
      await put(t, site, `/boards/${id}`, { name, cards: [...cards, ...more] })
    }
    const title = 'Someone else changed this board'
    await page.getByRole('button', { name: 'Edit board' }).click()
    await page.getByLabel('Name of the board').fill('Mine')
    await put(t, site, '/questions/later', { name: 'Later', question: USERS, display: null })
    await theirs('Theirs', [{ id: 'later', name: 'Later', question: { saved: 'later' }, width: 1 }])
    await page.getByRole('button', { name: 'Save board' }).click()
    await page.getByRole('dialog', { name: title }).getByRole('button', { name: 'Load theirs' }).click()
    await until('their name', async () => (await page.getByLabel('Name of the board').inputValue()) === 'Theirs')
    t.ok((await readTitles(page)).includes('Later'), 'with a question that was saved since')
    await page.getByLabel('Name of the board').fill('Mine')
    await theirs('Theirs again')
    await page.getByRole('button', { name: 'Save board' }).click()
    await page.getByRole('dialog', { name: title }).getByRole('button', { name: 'Overwrite' }).click()
    await page.getByRole('heading', { name: 'Mine' }).waitFor()
    t.match(await board(), { name: 'Mine' })
  })

  t.test('a read key sees boards read-only, and a failing card does not affect others', async (t) => {
    const { id } = await board()
    const cards = [
      { id: 'good', name: 'Good', question: { ...USERS, interval: 'none' }, display: { as: 'number' }, width: 1 },
      { id: 'bad', name: 'Bad', question: USERS, width: 1 },
      { id: 'list', name: 'List', question: LIST, width: 1 },
    ]
    await put(t, site, `/boards/${id}`, { name: 'Mine', cards })
    const reader = await visit(t, '#/overview', await addKey('read'))
    t.ok(await reader.getByRole('button', { name: 'New board' }).isDisabled())
    let asked = 0
    await reader.route('**/public/query', async (route) => {
      asked++
      const { kind, interval } = route.request().postDataJSON()
      if (kind === 'users' || interval === 'none') return await route.continue()
      await route.fulfill({
        status: 503,
        json: { status: 0, error: 'ClickHouse does not answer.', code: 'unavailable' },
      })
    })
    await reader.getByRole('link', { name: 'Mine' }).click()
    await findAnswer(reader, 'Good').getByText('3', { exact: true }).waitFor()
    await findAnswer(reader, 'Bad').getByText('ClickHouse does not answer.').waitFor()
    await findAnswer(reader, 'List').getByText('The page cannot show a list of users').waitFor()
    await page.goto(`${site.url}/#/board/${id}?edit=1`)
    await page.reload()
    await page.getByRole('button', { name: 'Remove List' }).click()
    await page.getByRole('button', { name: 'Save board' }).click()
    await page.getByRole('heading', { name: 'Mine' }).waitFor()
    t.match((await board()).cards, { length: 2 })
    await page.goto(`${site.url}/#/explore?q=${encodeURIComponent(JSON.stringify(LIST))}`)
    await page.getByRole('alert').getByText('The page cannot show a list of users').waitFor()
    await page.goto(`${site.url}/#/boards`)
    t.ok(await reader.getByRole('button', { name: 'Edit board' }).isDisabled())
    await installClock(reader)
    await reader.reload()
    await findAnswer(reader, 'Good').getByText('3', { exact: true }).waitFor()
    const before = asked
    await reader.clock.fastForward(61_000)
    await until('the next answers', () => asked >= before + 2)
  })

  t.test('a board can be created, and deleted after confirmation', async (t) => {
    await page.getByRole('button', { name: 'New board' }).click()
    await page.getByLabel('Name', { exact: true }).fill('<img src=x onerror=alert(1)>')
    await page.getByRole('button', { name: 'Create board' }).click()
    await page.getByText('There are no cards yet. Add the first one.').waitFor()
    t.equal((await boards()).length, 2)
    await page.getByRole('button', { name: 'Delete board' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete board' }).click()
    await page.getByRole('heading', { name: 'Mine' }).waitFor()
    t.equal((await boards()).length, 1)
  })

  t.test('a new board keeps its input when the list of boards cannot be loaded', async (t) => {
    const page = await visit(t, '#/')
    let fail: () => void = () => undefined
    const isTyped = new Promise<void>((resolve) => {
      fail = resolve
    })
    await page.getByRole('button', { name: 'New board' }).click()
    await page.getByLabel('Name', { exact: true }).fill('Before')
    await page.route('**/public/boards', async (route) => {
      await isTyped
      await route.abort('internetdisconnected')
    })
    await page.getByRole('button', { name: 'Create board' }).click()
    const name = page.getByLabel('Name of the board')
    await name.fill('After')
    fail()
    await page.getByRole('alert').getByText('The service cannot be reached.').first().waitFor()
    await page.unroute('**/public/boards')
    await page.getByRole('link', { name: 'Before' }).waitFor()
    t.equal(await name.inputValue(), 'After')
  })
})

t.test('a board that somebody else deletes while it is edited can be kept as a new one', async (t) => {
  const site = await startSite(t)
  await track(site)
  const { visit, call } = site
  const cards = [{ id: 'people', name: 'People', question: USERS, width: 1 }]
  await put(t, site, '/boards/doomed', { name: 'Doomed', cards })
  const page = await visit(t, '#/board/doomed?edit=1')
  await page.getByLabel('Name of the board').fill('Kept')
  await call('DELETE', '/public/boards/doomed')
  await page.getByRole('button', { name: 'Save board' }).click()
  const dialog = page.getByRole('dialog', { name: 'Someone else deleted this board' })
  await dialog.waitFor()
  t.equal(await dialog.getByRole('button', { name: 'Load theirs' }).count(), 0)
  await dialog.getByRole('button', { name: 'Save as new board' }).click()
  await page.getByRole('heading', { name: 'Kept' }).waitFor()
  await page.getByRole('article', { name: 'People' }).waitFor()
  const { boards } = (await call('GET', '/public/boards')).json()
  t.match(boards, [{ name: 'Kept', count: 1 }])
  t.equal(new URL(page.url()).hash, `#/board/${boards[0].id}`)
})
