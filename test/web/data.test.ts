import type { Page } from 'playwright-core'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { insertDeadLetter } from '../../src/store/dead-letters.js'
import { openStore } from '../../src/store/open.js'
import { until } from '../helper.js'
import { fileOf, isUsable, type Site, startSite } from './page.js'

/** Leaves a dead letter as the writer does. */
async function leaveLetter({ config }: Site, body: string, n: number): Promise<void> {
  const { clickhouse, close } = await openStore(config)
  if (!(clickhouse instanceof ClickHouse)) throw new Error('this test needs a ClickHouse')
  const position = BigInt(1_760_000_000_000 + n) << 16n
  const entry = { position, kind: 'events' as const, projectId: 'default', count: 1, receivedAt: 1_760_000_000_000 + n }
  await insertDeadLetter(clickhouse, 7, { ...entry, body: Buffer.from(body) }, `ClickHouse error ${n}`, `${position}`)
  await close()
}

/** The texts of a table's rows, below its head. */
const rowsOf = async (page: Page, table: string) => {
  const rows = await page.getByRole('table', { name: table }).getByRole('row').all()
  const texts = await Promise.all(rows.map(async (row) => await row.getByRole('cell').allTextContents()))
  return texts.filter((cells) => cells.length > 0)
}

t.test('what is stored', async (t) => {
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

  t.test('names are listed with counts, found by a part, and lead to their properties', async (t) => {
    const page = await visit(t, '#/data')
    await page.getByRole('link', { name: 'signed up', exact: true }).waitFor()
    t.strictSame(
      (await rowsOf(page, 'Names of events')).map(([event, count]) => [event, count]),
      [
        ['signed up', '3'],
        [hostile, '1'],
      ],
    )
    t.match(
      await fileOf(page, 'Download CSV'),
      /^\uFEFFEvent,Count,First seen,Last seen\r\nsigned up,3,20[^,]+Z,20[^,]+Z\r\n/,
    )
    await isUsable(t, page, 'names')
    await page.getByRole('searchbox').fill('SIGNED')
    await until('the search', async () => (await rowsOf(page, 'Names of events')).length === 1)
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
    t.strictSame(await rowsOf(page, 'Values of plan'), [
      ['"free"', '2'],
      ['"pro"', '1'],
    ])
    t.equal(await fileOf(page, 'CSV of values of plan'), '\uFEFFValue,Count\r\n"""free""",2\r\n"""pro""",1\r\n')
    t.match(await fileOf(page, 'Download CSV'), /\r\namount,0\.666\d+,number,/)
    await isUsable(t, page, 'properties')
    await plan.getByRole('link', { name: 'Explore by plan' }).click()
    await page.getByRole('heading', { name: 'Explore' }).waitFor()
    t.match(decodeURIComponent(page.url()), /"signed\+up".*"breakdown":\[\["properties","plan"\]\]/)
  })

  t.test('names and properties that try to be HTML are text', async () => {
    const page = await visit(t, '#/data')
    await page.getByRole('link', { name: hostile, exact: true }).click()
    await page.getByRole('heading', { name: hostile }).waitFor()
    t.match(await fileOf(page, 'Download CSV'), /\r\n'=cmd\(\),1,string,/)
    await page.getByRole('region', { name: '=cmd()' }).getByText('"<script>alert(1)</script>"').waitFor()
  })

  t.test('dead letters are shown with their reason, and replayed', async (t) => {
    const body = { events: [{ event: 'late', distinct_id: 'ada', properties: { b: '<b>' } }] }
    for (const n of [1, 2]) await leaveLetter(site, JSON.stringify(body), n)
    await leaveLetter(site, 'nonsense', 3)
    const page = await visit(t, '#/data/dead-letters')
    const letters = page.getByRole('region', { name: /^Dead letter/ })
    await letters.first().waitFor()
    t.equal(await letters.count(), 3)
    t.match(await letters.first().textContent(), /ClickHouse error 3[\s\S]*nonsense/)
    const file = (await fileOf(page, 'Download CSV')).split('\r\n')
    t.equal(file.length, 1 + 3 + 1)
    t.match(file[1], /,rejected,|,events,/)
    t.match(file[1], /,ClickHouse error 3,nonsense$/)
    await isUsable(t, page, 'dead letters')
    await page.getByRole('button', { name: 'Replay all 3 shown…' }).click()
    t.equal((await call('GET', '/public/events?event=late')).json().events.length, 0, 'not before it was confirmed')
    await page.getByRole('dialog').getByRole('button', { name: 'Replay', exact: true }).click()
    await page.getByText('2 stored now. 1 still cannot be stored:').waitFor()
    await page.getByText('✓ Replayed').nth(1).waitFor()
    t.equal((await call('GET', '/public/events?event=late')).json().events.length, 2)

    const reader = await visit(t, '#/data/dead-letters', await addKey('read'))
    await reader.getByText('Sign in with a secret key to replay.').waitFor()
    await reader
      .getByRole('region', { name: /^Dead letter/ })
      .first()
      .waitFor()
    t.equal(await reader.getByRole('button', { name: /Replay/ }).count(), 0)
  })

  t.test('another project sees none of it', async () => {
    const page = await visit(t, '#/data', await addKey('read', 'other'))
    await page.getByText('No events yet').first().waitFor()
    await page.goto(page.url().replace(/#.*/, '#/data/dead-letters'))
    await page.getByText('No dead letters').waitFor()
  })
})
