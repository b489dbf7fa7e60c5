import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { ReadPriority } from '../../src/clickhouse/read-priority.js'
import { startClickHouse } from '../helper.js'

const KNOWN = { rows: async () => [1] }
const NICE = 'os_threads_nice_value_query'

t.test('ReadPriority makes a project that keeps the store busy yield to others for some seconds', async (t) => {
  let now = 0
  const priority = new ReadPriority(KNOWN, () => now)
  const nice = async (project: string) => ((await priority.settings(project)) as Record<string, unknown>)[NICE]
  t.equal(await nice('a'), 15)
  const ends = [priority.begin('a'), priority.begin('a'), priority.begin('a'), priority.begin('a')]
  now += 300
  t.equal(await nice('a'), 15)
  now += 200
  t.equal(await nice('a'), 19, 'four for half a second')
  t.equal(await nice('b'), 15)
  for (const end of ends) end()
  now += 1_000
  t.equal(await nice('a'), 19)
  now += 4_000
  t.equal(await nice('a'), 15)
})

t.test('ReadPriority treats a project with one query at a time as heavy only if the query takes long', async (t) => {
  let now = 0
  const priority = new ReadPriority(KNOWN, () => now)
  for (let i = 0; i < 100; i++) {
    const end = priority.begin('a')
    now += 100
    end()
    now += 1_000
    t.notOk(priority.isHeavy('a'))
  }
  priority.begin('a')
  now += 2_000
  t.ok(priority.isHeavy('a'))
})

t.test('ReadPriority returns no settings for a server without priorities', async (t) => {
  t.strictSame(await new ReadPriority({ rows: async () => [] }).settings('a'), {})
})

t.test('ClickHouse sends the priority of a project with its queries, statements and streams', async (t) => {
  const engine = await startClickHouse(t)
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  const one = clickhouse.for('one')
  const query = `SELECT toString(getSetting('${NICE}')) AS nice`
  t.strictSame(await one.rows(query), [{ nice: '15' }])
  t.strictSame(await clickhouse.rows(query), [{ nice: '0' }], 'the service itself has none')
  t.strictSame(await clickhouse.rows(query, {}, {}, { project: 'two' }), [{ nice: '15' }])
  const stream = await one.bytes(`${query} FORMAT TSV`)
  t.equal(String(await stream.toArray()), '15\n')
  await one.command('CREATE TABLE nice (nice String) ENGINE = MergeTree ORDER BY nice')
  await one.command(`INSERT INTO nice ${query}`)
  t.strictSame(await clickhouse.rows('SELECT nice FROM nice'), [{ nice: '15' }])
})
