import t, { type Test } from 'tap'
import { ClickHouse, nameShare } from '../../src/clickhouse/client.js'
import { ReadPriority } from '../../src/clickhouse/read-priority.js'
import { until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

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
  const { clickhouse } = await emptyClickHouse()
  const one = clickhouse.for('one')
  const query = `SELECT toString(getSetting('${NICE}')) AS nice`
  t.strictSame(await one.rows(query), [{ nice: '15' }])
  t.strictSame(await clickhouse.rows(query), [{ nice: '0' }], 'the service itself has none')
  t.strictSame(await clickhouse.rows(query, {}, {}, { project: 'two' }), [{ nice: '15' }])
  const stream = await one.bytes(`${query} FORMAT TSV`)
  t.equal(String(await stream.toArray()), '15\n')
  t.teardown(() => clickhouse.command('DROP TABLE nice'))
  await one.command('CREATE TABLE nice (nice String) ENGINE = MergeTree ORDER BY nice')
  await one.command(`INSERT INTO nice ${query}`)
  t.strictSame(await clickhouse.rows('SELECT nice FROM nice'), [{ nice: '15' }])
})

/** A service whose projects read, and the endless queries that run in ClickHouse. */
async function startReaders(t: Test) {
  const { url } = await emptyClickHouse()
  const requests = new Set<string>()
  const owners = { hasOthersThan: (owner: string) => [...requests].some((other) => other !== owner) }
  // A busy thread would leave a heavy project one slot instead of two.
  const clickhouse = new ClickHouse({ url, owners, load: { isShort: false } })
  t.teardown(() => clickhouse.close())
  const listed = async () => {
    const rows = await clickhouse.rows<{ id: string }>(
      `SELECT extract(query, 'endless-(\\d+)') AS id FROM system.processes WHERE query LIKE '%sleepEachRow(1)%' AND id != ''`,
    )
    return rows.map(({ id }) => Number(id))
  }
  let count = 0
  const running: Promise<unknown>[] = []
  t.teardown(() => Promise.all(running))
  /** Starts a query that ends only when it is aborted. */
  const read = (project: string) => {
    const n = ++count
    const abort = new AbortController()
    const reading = { project, signal: abort.signal, limitMs: 120_000 }
    const query = `SELECT 'endless-${n}', sleepEachRow(1) FROM system.numbers LIMIT 100 SETTINGS max_block_size = 1`
    running.push(clickhouse.rows(query, {}, {}, reading).catch(() => undefined))
    t.teardown(() => abort.abort())
    const isListed = async () => (await listed()).includes(n)
    return { end: () => abort.abort(), isListed, begun: () => until(`the query ${n}`, isListed) }
  }
  const find = async (project: string, what: string) => {
    const [row] = await clickhouse.rows<{ found: string }>(`SELECT toString(${what}) AS found`, {}, {}, { project })
    return row?.found
  }
  const nice = (project: string) => find(project, `getSetting('${NICE}')`)
  const countSettings = "(SELECT count() FROM system.settings WHERE name = 'max_threads' AND changed)"
  const isLimited = async (project: string) => (await find(project, countSettings)) === '1'
  return { requests, read, nice, isLimited }
}

for (const share of ['reads', 'live', 'erase'] as const) {
  t.test(`ClickHouse lets the ${share} share of a heavy project yield to other projects only`, async (t) => {
    const { requests, read, nice } = await startReaders(t)
    const name = share === 'reads' ? 'p' : nameShare(share, 'p')
    requests.add('p')
    const first = [read(name), read(name)]
    for (const { begun } of first) await begun()
    await until('a heavy project', async () => (await nice(name)) === '19')
    const third = read(name)
    await third.begun()
    requests.add('q')
    const fourth = read(name)
    const other = read('q')
    await other.begun()
    t.notOk(await fourth.isListed(), 'it waits for one of two slots')
    for (const { end } of first) end()
    await fourth.begun()
    t.ok(await third.isListed())
  })
}

t.test('ClickHouse limits no project to one thread because of the slots of a heavy one', async (t) => {
  const { read, nice, isLimited } = await startReaders(t)
  const slots = [read('p'), read('p'), read('p')]
  for (const { begun } of slots) await begun()
  await until('a heavy project', async () => (await nice('p')) === '19')
  t.ok(await isLimited('p'))
  t.notOk(await isLimited('q'))
})
