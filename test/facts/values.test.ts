import t from 'tap'
import { isStoreError } from '../../src/clickhouse/errors.js'
import { Questions } from '../../src/questions/run.js'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { requestFacts } from '../../src/store/event-changes.js'
import { readFactsStatus } from '../../src/store/fact-status.js'
import {
  addValueColumns,
  type ColumnSource,
  dropValueColumns,
  listValueColumns,
  MAX_VALUE_COLUMNS,
  nameValueColumn,
  noteColumnsUsed,
  readValueColumns,
} from '../../src/store/fact-values.js'
import { startClickHouse, until } from '../helper.js'
import { openShard } from './shard.js'

const PROJECT = 'a'
/** Objects have no columns until questions use their members. */
const MODEL = ['device', 'model']

type Shard = Awaited<ReturnType<typeof openShard>>

const event = (properties: object | string) => ({
  event: 'e',
  distinct_id: 'u',
  timestamp: 1,
  properties: typeof properties === 'string' ? properties : JSON.stringify(properties),
})

const readPaths = async ({ clickhouse }: Shard) =>
  Array.from((await listValueColumns(clickhouse)).values(), ({ source }) => source)

async function readValues({ clickhouse }: Shard, source: ColumnSource): Promise<string[]> {
  const rows = await clickhouse.rows<{ value: string }>(
    `SELECT ${nameValueColumn(source)} AS value FROM event_facts ORDER BY event_id`,
  )
  return rows.map(({ value }) => value)
}

async function settled({ clickhouse }: Shard): Promise<void> {
  await until('all changes', async () => {
    const open = await clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3')
    return open.length === 0
  })
}

/** Requests a column, as slow questions do. */
async function ask(reader: FactsReader, paths: string[][], project = PROJECT): Promise<void> {
  for (let i = 0; i < 3; i++) await reader.noteSlow(project, paths)
}

t.test('a property that slow questions use gets a column, until facts are rebuilt', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  const store = (model: string) => shard.store(PROJECT, [event(`{"device":{"model":${model}}}`)])
  await store('"old"')
  shard.copier()
  await shard.complete([PROJECT])
  const reader = new FactsReader(shard.shards, [])
  const column = nameValueColumn(MODEL)
  await reader.noteSlow(PROJECT, [MODEL])
  await reader.noteSlow(PROJECT, [MODEL, ['other']])
  await settled(shard)
  t.equal((await readValueColumns(clickhouse)).size, 0)
  await reader.noteSlow(PROJECT, [MODEL])
  await until('the column', async () => (await readValueColumns(clickhouse)).has(column))
  await store('"new"')
  await store('-0.0')
  await shard.complete([PROJECT])
  t.strictSame(await readValues(shard, MODEL), ['"old"', '"new"', '-0'])
  reader.forgetColumns()
  t.strictSame([...(await reader.readColumns())], [column])
  await requestFacts(clickhouse, 'rebuild', '')
  await until('no column', async () => (await readValueColumns(clickhouse)).size === 0)
  await shard.complete([PROJECT])
  t.equal(await shard.countFacts(), 3)
})

t.test(
  'the first text of a list of properties may be of one without a name; an empty list has no column',
  async (t) => {
    const shard = await openShard(t)
    shard.copier()
    const reader = new FactsReader(shard.shards, [])
    const list = { firstOf: [[''], ['n']] }
    for (let i = 0; i < 3; i++) await reader.noteSlow(PROJECT, [{ firstOf: [] }, list])
    await until('the column', async () => (await readValueColumns(shard.clickhouse)).size > 0)
    await shard.store(PROJECT, [event('{"":"a","n":"b"}'), event('{"n":"b"}'), event('{}')])
    await shard.complete([PROJECT])
    const columns = await readValueColumns(shard.clickhouse)
    t.ok(columns.has(nameValueColumn(list)))
    t.notOk(columns.has(nameValueColumn({ firstOf: [] })))
    t.strictSame(await readValues(shard, list), ['a', 'b', ''])
  },
)

t.test('frequent properties have columns before anybody asks', async (t) => {
  const shard = await openShard(t)
  const properties = (i: number) => ({
    plan: i % 2 === 0 ? 'pro' : null,
    "it's": i,
    long: 'x'.repeat(1000),
    device: { model: 'm' },
    ...(i === 0 && { seldom: 1 }),
  })
  await shard.store(PROJECT, [event('{"plan":"first","plan":"second"}'), event('{}'), event('{"plan":1e400}')])
  await shard.store(
    PROJECT,
    Array.from({ length: 197 }, (_, i) => event(properties(i))),
  )
  const options = { maxStep: { rows: 50, bytes: 1_000_000 }, guessEvery: 100 }
  const first = shard.copier(options)
  await shard.complete([PROJECT])
  t.strictSame(await readPaths(shard), [['plan'], ["it's"]])
  const plans = ['"first"', '', '', ...Array.from({ length: 197 }, (_, i) => (i % 2 === 0 ? '"pro"' : 'null'))]
  t.strictSame(await readValues(shard, ['plan']), plans)
  t.equal(await shard.countDifferences(), 0)

  await first.close()
  shard.copier(options)
  await shard.store(
    PROJECT,
    Array.from({ length: 60 }, (_, i) => event({ plan: 'pro', beta: i })),
  )
  await shard.complete([PROJECT])
  t.strictSame(await readPaths(shard), [['plan'], ["it's"]], 'they are not looked at with each step')
  await shard.store(
    PROJECT,
    Array.from({ length: 60 }, (_, i) => event({ plan: 'pro', beta: i })),
  )
  await shard.complete([PROJECT])
  t.strictSame(await readPaths(shard), [['plan'], ["it's"], ['beta']])
  const betas = Array.from({ length: 60 }, (_, i) => String(i))
  t.strictSame(await readValues(shard, ['beta']), [...Array.from({ length: 200 }, () => ''), ...betas, ...betas])
  const status = await readFactsStatus(shard.clickhouse, 1)
  t.match(status, { events: 320, facts: 320, few: 0 })
})

t.test('facts that are already copied get a column once slow questions need it', async (t) => {
  const shard = await openShard(t, await startClickHouse(t))
  const { clickhouse } = shard
  await clickhouse.command('SYSTEM STOP MERGES event_facts')
  await shard.store(PROJECT, [event({ device: { model: 'old' }, other: 'o' })])
  shard.copier()
  await shard.complete([PROJECT])
  await shard.store('b', [event({ device: 'frequent', other: 'o' })])
  await shard.complete(['b'])
  t.strictSame(await readPaths(shard), [['other'], ['device']])
  const column = nameValueColumn(['device'])
  const countLacking = async () => {
    const parts = await clickhouse.rows(
      `SELECT 1 FROM system.parts WHERE table = 'event_facts' AND active
         AND name NOT IN (SELECT name FROM system.parts_columns WHERE table = 'event_facts' AND column = {column:String})`,
      { column },
    )
    return parts.length
  }
  t.equal(await countLacking(), 1)
  await ask(new FactsReader(shard.shards, []), [['device']])
  await clickhouse.command('SYSTEM START MERGES event_facts')
  await until('the column of both', async () => (await countLacking()) === 0)
  t.strictSame(await readValues(shard, ['device']), ['{"model":"old"}', '"frequent"'])
})

t.test('the number of columns is limited: unused ones are replaced by needed ones', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  shard.copier()
  const reader = new FactsReader(shard.shards, [])
  const paths = Array.from({ length: MAX_VALUE_COLUMNS + 3 }, (_, i) => [`p${i}`, "it's"])
  const [surplus = [], second = [], third = []] = paths.splice(-3)
  await ask(reader, [['\ud83d'], ...paths])
  await settled(shard)
  t.strictSame(await readPaths(shard), paths.slice(0, 20), 'of one project')
  await ask(reader, paths, 'b')
  await ask(reader, paths, 'c')
  await until('the columns', async () => (await readValueColumns(clickhouse)).size === MAX_VALUE_COLUMNS)
  t.strictSame(await readPaths(shard), paths)

  await ask(reader, [surplus], 'd')
  await settled(shard)
  t.strictSame(await readPaths(shard), paths, 'all were used within a day')
  await clickhouse.command('TRUNCATE TABLE facts_columns_used')
  await reader.noteUsed([nameValueColumn(paths[1] ?? [])])
  await ask(reader, [second], 'd')
  await until('the second', async () => (await readValueColumns(clickhouse)).has(nameValueColumn(second)))
  await ask(reader, [third], 'd')
  await until('the third', async () => (await readValueColumns(clickhouse)).has(nameValueColumn(third)))
  await settled(shard)
  const [, used = []] = paths
  t.strictSame(await readPaths(shard), [used, ...paths.slice(3), second, third])
  const others = paths.map((path) => nameValueColumn(path))
  await noteColumnsUsed(clickhouse, others)
  await shard.store(PROJECT, [event({ guessed: 1 })])
  await shard.complete([PROJECT])
  t.equal((await readValueColumns(clickhouse)).size, MAX_VALUE_COLUMNS, 'none is guessed then')
})

t.test('a question is answered while columns come and go', async (t) => {
  const shard = await openShard(t)
  const { clickhouse, shards } = shard
  await shard.store(
    PROJECT,
    Array.from({ length: 30 }, (_, i) => event({ plan: ['pro', 'free', 'team'][i % 3] })),
  )
  const copier = shard.copier()
  await shard.complete([PROJECT])
  // The test changes the columns instead.
  await copier.close()
  const reader = new FactsReader(shards, [])
  let reads = 0
  const facts = new Proxy(reader, {
    get(target, name) {
      if (name === 'stillHolds') reads++
      const found: unknown = Reflect.get(target, name)
      return typeof found === 'function' ? found.bind(target) : found
    },
  })
  const questions = new Questions({
    shards,
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 60, QUERY_MEMORY: 1 << 30 },
    facts,
  })
  const question = {
    kind: 'series',
    series: [{ event: 'e', where: ['is', 'properties.plan', ['pro', 'free']] }],
    breakdown: ['properties.plan'],
    ...{ from: '1970-01-01', to: '1970-01-02', interval: 'none' },
  }
  const answer = async () => (await questions.ask(PROJECT, question, new AbortController().signal)).results
  const expected = await answer()
  t.match(JSON.stringify(expected), /"pro".*10|10.*"pro"/)
  const column = nameValueColumn(['plan'])
  t.ok((await reader.readColumns()).has(column))
  await dropValueColumns(clickhouse, [column])
  reads = 0
  t.strictSame(await answer(), expected, 'after one was dropped that this process knew')
  t.equal(reads, 1, 'from facts')

  let isAsking = true
  const changing = (async () => {
    for (let i = 0; isAsking; i++) {
      await addValueColumns(clickhouse, [['plan']], { isFilled: i % 2 === 0 })
      reader.forgetColumns()
      // ClickHouse may not know yet that its previous mutation of the column has ended.
      await until('the column to go', () =>
        dropValueColumns(clickhouse, [column]).then(
          () => true,
          (error) => !isStoreError(error, 'BAD_ARGUMENTS') && Promise.reject(error),
        ),
      )
    }
  })()
  for (let i = 0; i < 12; i++) t.strictSame(await answer(), expected)
  isAsking = false
  await changing
})

t.test('a project with few events has no facts until it has more', async (t) => {
  const shard = await openShard(t)
  const store = (project: string, count: number) =>
    shard.store(
      project,
      Array.from({ length: count }, () => event({ plan: 'pro' })),
    )
  await store('small', 30)
  await store('large', 60)
  const options = { minEvents: 50 }
  const copier = shard.copier(options)
  await shard.complete(['large'])
  t.equal(await shard.countFacts(), 60)
  t.match(await readFactsStatus(shard.clickhouse, options.minEvents), { events: 60, facts: 60, few: 30 })
  t.equal(copier.waiting, 0)
  const reader = new FactsReader(shard.shards, [])
  t.equal(await reader.point('small'), null)
  await store('small', 10)
  await store('large', 1)
  await shard.complete(['large'])
  t.equal(await shard.countFacts(), 61)
  await store('small', 10)
  await shard.complete(['small'])
  t.equal(await shard.countFacts(), 111, 'from the first one on')
  await copier.close()
  shard.copier(options)
  await store('small', 1)
  await store('tiny', 1)
  await shard.complete(['small'])
  t.equal(await shard.countFacts(), 112)
  t.equal(await shard.countDifferences(), 0)
  t.match(await readFactsStatus(shard.clickhouse, options.minEvents), { events: 112, facts: 112, few: 1 })
})
