import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { DeletionCounter, readDeletedOn, sumDeletions } from '../../src/store/deleted-events.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { emptyClickHouse } from '../shared-engine.js'

const DAY_MS = 86_400_000
const DAYS_AGO = 'now64(3) - 2 * 86400'
const { clickhouse, url } = await emptyClickHouse()
const proxy = await TcpProxy.open(t, url)
const delayed = new ClickHouse({ url: proxy.url })
t.teardown(() => delayed.close())

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
  // An interrupted one is settled, so it may be summed a day later, and a recent one may be used again.
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
  const unsettled = await clickhouse.rows("SELECT project_id FROM deleted_events FINAL WHERE left_query != ''")
  t.strictSame(unsettled, [], 'no query of an interrupted deletion stays forever')

  await addRows([`('shop', '${randomUUID()}', 1, 5, 0, '', ${DAYS_AGO})`])
  await sumDeletions(clickhouse)
  t.strictSame(await countRows(), { blog: 2, shop: 2 }, 'later ones are added to the sum')
  t.equal((await readDeletedOn(clickhouse)).get('shop'), 3_112)
})

t.test('a counter in use is not summed', async (t) => {
  const used = new DeletionCounter(clickhouse)
  const left = { query: 'SELECT 0 AS count', parameters: {} }
  const deleteSome = (count: number) => used.run('used', { count, left, run: async () => true })
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
    const deleteSome = (count: number) => counter.run(project, { count, left, run: async () => true })
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

/** A note of a deletion that another process is or was carrying out. */
const noteOf = (project: string, query: string, ageS = 0) => {
  const left = JSON.stringify({ query, parameters: {} })
  return `('${project}', '${randomUUID()}', 1, 0, 5, '${left}', now64(3) - ${ageS})`
}

t.test('a deletion that begins while interrupted ones are settled is left alone', async (t) => {
  await addRows([noteOf('busy', 'SELECT 2 AS count', 60)])
  const { held, release } = proxy.hold('system.processes')
  const opened = DeletionCounter.open(delayed, 'busy')
  await held
  await addRows([noteOf('busy', 'SELECT 5 AS count')])
  await release()
  await opened
  const notes = await clickhouse.rows(
    `SELECT toUInt32(count) AS count, toUInt32(pending) AS pending FROM deleted_events FINAL
     WHERE project_id = 'busy' ORDER BY count`,
  )
  t.strictSame(notes, [
    { count: 0, pending: 5 },
    { count: 3, pending: 0 },
  ])
})

t.test('a process that was slow knows better than the one that settled its deletion', async (t) => {
  let row = ''
  await new DeletionCounter(clickhouse).run('slow', {
    count: 3,
    left: { query: 'SELECT 3 AS count', parameters: {} },
    run: async () => {
      const [note] = await clickhouse.rows<{ counter: string; revision: string }>(
        "SELECT counter, revision FROM deleted_events FINAL WHERE project_id = 'slow'",
      )
      row = `('slow', '${note?.counter}', ${Number(note?.revision) + 1}, 0, 0, '', now64(3))`
    },
  })
  await addRows([row])
  t.equal((await readDeletedOn(clickhouse)).get('slow'), 3)
})

t.test('two that settle a deletion at once do not count what one of them deletes then', async (t) => {
  await clickhouse.command('CREATE TABLE doomed ENGINE = MergeTree ORDER BY () AS SELECT number FROM numbers(5)')
  t.teardown(() => clickhouse.command('DROP TABLE doomed'))
  const left = { query: 'SELECT count() AS count FROM doomed', parameters: {} }
  await addRows([noteOf('twice', left.query, 60)])
  const { held, release } = proxy.hold('FROM doomed')
  const other = DeletionCounter.open(delayed, 'twice')
  await held
  const repeated = DeletionCounter.open(clickhouse, 'twice').then((counter) =>
    counter.run('twice', { count: 5, left, run: () => clickhouse.command('TRUNCATE TABLE doomed') }),
  )
  await Promise.race([repeated, wait(500)])
  await release()
  await Promise.all([other, repeated])
  t.equal((await readDeletedOn(clickhouse)).get('twice'), 5)
})

t.test('notes of two deletions of the same events', async (t) => {
  const query = 'SELECT 5 AS count'
  await addRows([noteOf('same', query), noteOf('same', query)])
  t.equal((await readDeletedOn(clickhouse)).get('same'), 0)
})
