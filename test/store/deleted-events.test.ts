import { randomUUID } from 'node:crypto'
import t from 'tap'
import { DeletionCounter, readDeletedOn, sumDeletions } from '../../src/store/deleted-events.js'
import { emptyClickHouse } from '../shared-engine.js'

const DAY_MS = 86_400_000
const DAYS_AGO = 'now64(3) - 2 * 86400'
const { clickhouse } = await emptyClickHouse()

const addRows = async (rows: string[]) => {
  await clickhouse.command(
    `INSERT INTO deleted_events (project_id, counter, revision, count, pending, left_query, noted_at) VALUES ${rows.join(', ')}`,
  )
}
const countRows = async () => {
  const rows = await clickhouse.rows<{ project: string; rows: string }>(
    'SELECT project_id AS project, count() AS rows FROM deleted_events FINAL GROUP BY project ORDER BY project',
  )
  return Object.fromEntries(rows.map(({ project, rows }) => [project, Number(rows)]))
}

t.test('counters that are no longer used become one row of their project, and nothing is lost', async (t) => {
  const counter = randomUUID()
  await addRows([`('shop', '${counter}', 1, 0, 7, '{"query":"SELECT 7 AS count","parameters":{}}', ${DAYS_AGO})`])
  await addRows([`('shop', '${counter}', 2, 7, 0, '', ${DAYS_AGO})`])
  // More than one statement can sum.
  await addRows(Array.from({ length: 1_500 }, () => `('shop', '${randomUUID()}', 1, 2, 0, '', ${DAYS_AGO})`))
  await addRows([`('blog', '${randomUUID()}', 3, 4, 0, '', ${DAYS_AGO})`])
  // An interrupted one still has to be settled, and a recent one may be used again.
  const left = JSON.stringify({ query: 'SELECT 2 AS count', parameters: {} })
  await addRows([`('blog', '${randomUUID()}', 1, 1, 10, '${left}', ${DAYS_AGO})`])
  await addRows([`('shop', '${randomUUID()}', 1, 100, 0, '', now64(3))`])
  const before = new Map([
    ['shop', 3_107],
    ['blog', 13],
  ])
  t.strictSame(await readDeletedOn(clickhouse), before)
  for (let i = 0; i < 2; i++) {
    await sumDeletions(clickhouse)
    t.strictSame(await readDeletedOn(clickhouse), before)
    t.strictSame(await countRows(), { blog: 2, shop: 2 })
  }

  await addRows([`('shop', '${randomUUID()}', 1, 5, 0, '', ${DAYS_AGO})`])
  await sumDeletions(clickhouse)
  t.strictSame(await countRows(), { blog: 2, shop: 2 }, 'later ones are added to the sum')
  t.equal((await readDeletedOn(clickhouse)).get('shop'), 3_112)
})

t.test('a counter in use is not summed', async (t) => {
  const used = new DeletionCounter(clickhouse)
  const left = { query: 'SELECT 0 AS count', parameters: {} }
  const deleteSome = (count: number) => used.run('used', { count, left, isResumable: false, run: async () => true })
  await deleteSome(3)
  await sumDeletions(clickhouse)
  await deleteSome(4)
  await sumDeletions(clickhouse)
  t.equal((await readDeletedOn(clickhouse)).get('used'), 7)
  t.equal((await countRows()).used, 1)
})

t.test('a counter that may have been summed is not used again', async (t) => {
  const left = { query: 'SELECT 0 AS count', parameters: {} }
  // While a host is suspended, its monotonic clock stops. The other one may be set back.
  for (const [project, later] of [
    ['suspended', { monotonic: 0, epoch: 2 * DAY_MS }],
    ['set back', { monotonic: 2 * DAY_MS, epoch: -DAY_MS }],
  ] as const) {
    let times = { monotonic: 0, epoch: 0 }
    const counter = new DeletionCounter(clickhouse, () => times)
    const deleteSome = (count: number) =>
      counter.run(project, { count, left, isResumable: false, run: async () => true })
    await deleteSome(3)
    await clickhouse.command(
      `INSERT INTO deleted_events (project_id, counter, revision, count, pending, left_query, noted_at)
       SELECT project_id, counter, revision + 1, count, pending, left_query, ${DAYS_AGO} FROM deleted_events FINAL
       WHERE project_id = {project:String}`,
      { project },
    )
    await sumDeletions(clickhouse)
    times = later
    await deleteSome(4)
    t.equal((await readDeletedOn(clickhouse)).get(project), 7)
    await sumDeletions(clickhouse)
    t.equal((await countRows())[project], 2, 'the sum, and the new counter')
  }
})
