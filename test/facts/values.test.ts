import t from 'tap'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { askForFacts } from '../../src/store/event-changes.js'
import { MAX_VALUE_COLUMNS, nameValueColumn, readValueColumns } from '../../src/store/fact-values.js'
import { until } from '../helper.js'
import { openShard } from './shard.js'

const PROJECT = 'a'
const PLAN = ['plan']

t.test('a property that slow questions ask for is given a column, until facts are rebuilt', async (t) => {
  const shard = await openShard(t)
  const { clickhouse } = shard
  const store = (plan: string) =>
    shard.store(PROJECT, [{ event: 'e', distinct_id: 'u', timestamp: 1, properties: `{"plan":${plan}}` }])
  await store('"old"')
  shard.copier()
  await shard.complete([PROJECT])
  const reader = new FactsReader(shard.shards, [])
  const column = nameValueColumn(PLAN)
  const read = async () => {
    const rows = await clickhouse.rows<{ plan: string }>(`SELECT ${column} AS plan FROM event_facts ORDER BY event_id`)
    return rows.map(({ plan }) => plan)
  }
  await reader.noteSlow([PLAN])
  await reader.noteSlow([PLAN, ['other']])
  t.equal((await readValueColumns(clickhouse)).size, 0)
  await reader.noteSlow([PLAN])
  await until('the column', async () => (await readValueColumns(clickhouse)).has(column))
  await store('"new"')
  await store('1.0')
  await shard.complete([PROJECT])
  t.strictSame(await read(), ['"old"', '"new"', '1'])
  reader.forgetColumns()
  t.strictSame([...(await reader.readColumns())], [column])
  await askForFacts(clickhouse, 'rebuild', '')
  await until('no column', async () => (await readValueColumns(clickhouse)).size === 0)
  await shard.complete([PROJECT])
  t.equal(await shard.countFacts(), 3)
})

t.test('there are only so many columns, and none for names that the parser does not find', async (t) => {
  const shard = await openShard(t)
  shard.copier()
  const reader = new FactsReader(shard.shards, [])
  const paths = Array.from({ length: MAX_VALUE_COLUMNS + 2 }, (_, i) => [`p${i}`, "it's"])
  for (let i = 0; i < 3; i++) await reader.noteSlow([['\ud83d'], ...paths])
  await until('all changes', async () => {
    const open = await shard.clickhouse.rows('SELECT 1 FROM event_changes FINAL WHERE state < 3')
    return open.length === 0
  })
  const columns = await readValueColumns(shard.clickhouse)
  t.equal(columns.size, MAX_VALUE_COLUMNS)
  t.notOk(columns.has(nameValueColumn(['\ud83d'])))
})
