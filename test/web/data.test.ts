import type { Page } from 'playwright-core'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { insertDeadLetter } from '../../src/store/dead-letters.js'
import { openStore } from '../../src/store/open.js'
import { until } from '../helper.js'
import { checkAccessibility, download, readCells, type Site, startSite } from './page.js'

/** Inserts a dead letter as the writer does. */
async function insertLetter({ config, project }: Site, body: string, n: number): Promise<void> {
  const { clickhouse, close } = await openStore(config)
  if (!(clickhouse instanceof ClickHouse)) throw new Error('this test needs a ClickHouse')
  const position = BigInt(1_760_000_000_000 + n) << 16n
  const entry = { position, kind: 'events' as const, projectId: project, count: 1, receivedAt: 1_760_000_000_000 + n }
  await insertDeadLetter(clickhouse, 7, { ...entry, body: Buffer.from(body) }, `ClickHouse error ${n}`, `${position}`)
  await close()
}

/** The cell texts of a table's rows. */
const readRows = async (page: Page, table: string) => {
  const rows = await readCells(page.getByRole('table', { name: table }).locator('tr'))
  return rows.filter((cells) => cells.length > 0)
}

t.test('the data view', async (t) => {
  const site = await startSite(t)
  const { call, visit, addKey } = site
  const hostile = '<img src=x onerror=alert(1)>'
  for (const [event, properties] of [
    ['signed up', '{"plan":"pro","amount":1.0}'],
    ['signed up', '{"plan":"free","amount":12345678901234567890}'],
    ['signed up', '{"plan":"free"}'],
    [hostile, '{"=cmd()":"<script>alert(1)</script>"}'],
  ]) {
    await call(
      'POST',
      '/public/track',
      `{"event":${JSON.stringify(event)},"distinct_id":"ada","properties":${properties}}`,
    )
  }

  t.test('lists event names with counts, searches them, and links to properties', async (t) => {
    const page = await visit(t, '#/data')
    await page.getByRole('link', { name: 'signed up', exact: true }).waitFor()
    t.strictSame(
      (await readRows(page, 'Events')).map(([event, count]) => [event, count]),
      [
        ['signed up', '3'],
        [hostile, '1'],
      ],
    )
    t.match(
      await download(page, 'Download CSV'),
      /^\uFEFFEvent,Count,First seen,Last seen\r\nsigned up,3,20[^,]+Z,20[^,]+Z\r\n/,
    )
    await checkAccessibility(t, page, 'names')
    await page.getByRole('searchbox').fill('SIGNED')
    await until('the search', async () => (await readRows(page, 'Events')).length === 1)
    t.match(page.url(), /search=SIGNED$/)
    await page.getByRole('link', { name: 'signed up', exact: true }).click()
    const amount = page.getByRole('region', { name: 'amount' })
    await amount.getByText('66.7%').waitFor()
    t.match(await amount.textContent(), /number/)
    t.same(
      await amount.getByRole('listitem').allTextContents(),
      ['1', '12345678901234567000'],
      'as ClickHouse counts them',
    )
    const plan = page.getByRole('region', { name: 'plan' })
    await plan.getByRole('button', { name: 'Show values' }).click()
    await plan.getByRole('table').waitFor()
    t.strictSame(await readRows(page, 'Values of plan'), [
      ['"free"', '2'],
      ['"pro"', '1'],
    ])
    t.equal(await download(page, 'CSV of values of plan'), '\uFEFFValue,Count\r\n"""free""",2\r\n"""pro""",1\r\n')
    t.match(await download(page, 'CSV of properties'), /\r\namount,0\.666\d+,number,/)
    await checkAccessibility(t, page, 'properties')
    await plan.getByRole('link', { name: 'Explore by plan' }).click()
    await page.getByRole('heading', { name: 'Explore' }).waitFor()
    t.match(decodeURIComponent(page.url()), /"signed\+up".*"breakdown":\[\["properties","plan"\]\]/)
  })

  t.test('says that only the most frequent values are listed', async (t) => {
    const events = Array.from({ length: 51 }, (_, i) => {
      return { event: 'coded', distinct_id: 'ada', properties: { code: `c${i}` } }
    })
    await call('POST', '/public/track/batch', { events })
    const page = await visit(t, '#/data/events/coded')
    await page.getByRole('button', { name: 'Show values' }).click()
    await page.getByText('Only the 50 most frequent are listed.').waitFor()
    t.equal((await readRows(page, 'Values of code')).length, 50)
    t.equal((await download(page, 'CSV of values of code')).split('\r\n').length, 1 + 50 + 1)
    await page.getByText('Only the first 50 rows').waitFor()
  })

  t.test('shows names and properties with HTML as text', async () => {
    const page = await visit(t, '#/data')
    await page.getByRole('link', { name: hostile, exact: true }).click()
    await page.getByRole('heading', { name: hostile }).waitFor()
    t.match(await download(page, 'CSV of properties'), /\r\n'=cmd\(\),1,string,/)
    await page.getByRole('region', { name: '=cmd()' }).getByText('"<script>alert(1)</script>"').waitFor()
  })

  t.test('lists dead letters with reasons, and replays them', async (t) => {
    const body = { events: [{ event: 'late', distinct_id: 'ada', properties: { b: '<b>' } }] }
    for (const n of [1, 2]) await insertLetter(site, JSON.stringify(body), n)
    await insertLetter(site, 'nonsense', 3)
    const page = await visit(t, '#/data/dead-letters')
    const letters = page.getByRole('region', { name: /^Dead letter/ })
    await letters.first().waitFor()
    t.equal(await letters.count(), 3)
    t.match(await letters.first().textContent(), /ClickHouse error 3[\s\S]*nonsense/)
    const file = (await download(page, 'Download CSV')).split('\r\n')
    t.equal(file.length, 1 + 3 + 1)
    t.match(file[1], /,rejected,|,events,/)
    t.match(file[1], /,ClickHouse error 3,nonsense$/)
    const [newest, second, third] = (await call('GET', '/public/dead-letters')).json().dead_letters
    const pages = [
      { dead_letters: [newest, second], hasMore: true },
      { dead_letters: [second, third], hasMore: false },
    ]
    await page.route('**/public/dead-letters?*limit=100', (route) => route.fulfill({ json: pages.shift() ?? {} }))
    const ids = (await download(page, 'Download CSV')).split('\r\n').map((line) => line.split(',')[0])
    t.strictSame(ids.slice(1, -1), [newest.id, second.id, third.id], 'one that moved to the next page is there once')
    await checkAccessibility(t, page, 'dead letters')
    await page.getByRole('button', { name: 'Replay all 3 on this page…' }).click()
    t.equal(
      (await call('GET', '/public/events?event=late')).json().events.length,
      0,
      'nothing is replayed before the confirmation',
    )
    await page.getByRole('dialog').getByRole('button', { name: 'Replay', exact: true }).click()
    await page.getByText('2 dead letters stored. 1 still could not be stored:').waitFor()
    await page.getByText('✓ Replayed').nth(1).waitFor()
    t.equal((await call('GET', '/public/events?event=late')).json().events.length, 2)

    const reader = await visit(t, '#/data/dead-letters', await addKey('read'))
    await reader.getByText('Sign in with a secret key to replay dead letters.').waitFor()
    await reader
      .getByRole('region', { name: /^Dead letter/ })
      .first()
      .waitFor()
    t.equal(await reader.getByRole('button', { name: /Replay/ }).count(), 0)
  })

  t.test('shows nothing of another project', async () => {
    const page = await visit(t, '#/data', await addKey('read', 'no data'))
    await page.getByText('No events yet').first().waitFor()
    await page.goto(page.url().replace(/#.*/, '#/data/events/signed%20up'))
    await page.getByText('The project has no events with this name.').waitFor()
    await page.goto(page.url().replace(/#.*/, '#/data/dead-letters'))
    await page.getByText('No dead letters').waitFor()
  })
})
