import t from 'tap'
import { isStoreError } from '../../src/clickhouse/errors.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { FACT_COLUMNS, selectFacts } from '../../src/store/fact-columns.js'
import { addValueColumns, dropValueColumns, nameValueColumn } from '../../src/store/fact-values.js'
import { prepareShards } from '../../src/store/prepare-shards.js'
import { type Node, shardsUrl, startNodes } from '../nodes.js'

const PATHS = [['plan'], ['device', 'model']]
const [PLAN = '', MODEL = ''] = PATHS.map(nameValueColumn)
const PROPERTIES = '{"plan":"pro","device":{"model":"m"}}'

t.test('questions over several shards read the columns that all shards have', async (t) => {
  const shards = openShards(shardsUrl((await startNodes(t, 2)) as [Node, Node]))
  t.teardown(() => shards.close())
  await prepareShards(shards)
  const reader = new FactsReader(shards, [])
  const readColumns = async () => {
    reader.forgetColumns()
    return [...(await reader.readColumns())].sort()
  }
  await shards.each(async ({ clickhouse }) => {
    await clickhouse.command(
      `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
       SELECT 'p', generateUUIDv4(), 'e', 'u', 1, 1, '${PROPERTIES}'`,
    )
    await clickhouse.command(
      `INSERT INTO event_facts (${FACT_COLUMNS.join(', ')}) ${selectFacts('events', 'true', '1')}`,
    )
  })
  await addValueColumns(shards.at(0).clickhouse, PATHS)
  t.strictSame(await readColumns(), [])
  await addValueColumns(shards.at(1).clickhouse, PATHS)
  t.strictSame(await readColumns(), [PLAN, MODEL].sort())
  const read = () => shards.rows(`SELECT ${PLAN} AS plan, ${MODEL} AS model FROM event_facts_all ORDER BY _shard_num`)
  const row = { plan: '"pro"', model: '"m"' }
  t.strictSame(await read(), [row, row])

  // The table over all shards is recreated at each start.
  await prepareShards(shards)
  t.strictSame(await read(), [row, row])
  await dropValueColumns(shards.at(1).clickhouse, [PLAN])
  t.strictSame(await readColumns(), [MODEL])
  await t.rejects(read(), { message: /UNKNOWN_IDENTIFIER|Unknown/ })
  const error = await read().catch((error: unknown) => error)
  t.ok(isStoreError(error, 'UNKNOWN_IDENTIFIER'), String(error))
})
