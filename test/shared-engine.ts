import root from 'tap'
import { ClickHouse } from '../src/clickhouse/client.js'
import { migrate } from '../src/clickhouse/migrate.js'
import { dropValueColumns, readValueColumns } from '../src/store/fact-values.js'
import { startClickHouse, until } from './helper.js'

/** What a migration writes, and what is empty without rows that ClickHouse counts. */
const KEPT = ['schema_migrations', 'shard_identity']
const UNCOUNTED = ['facts_checked']

let started: Promise<{ url: string; clickhouse: ClickHouse }> | undefined

/**
 * A ClickHouse with empty tables. The tests of this process use the same one, one after another, because starting one
 * takes as much CPU time as a hundred statements. A test that stops it, has other settings, or creates tables that it
 * does not drop, starts its own.
 */
export async function emptyClickHouse(): Promise<{ url: string; clickhouse: ClickHouse }> {
  started ??= start()
  const { url, clickhouse } = await started
  await until('the statements of the previous test', async () => {
    const others = 'current_database = currentDatabase() AND query_id != queryID()'
    return (await clickhouse.rows(`SELECT 1 FROM system.processes WHERE ${others}`)).length === 0
  })
  await clickhouse.command('SYSTEM START MERGES')
  const tables = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM system.tables WHERE database = currentDatabase() AND name NOT IN {kept:Array(String)}
       AND (total_rows > 0 OR name IN {uncounted:Array(String)})`,
    { kept: KEPT, uncounted: UNCOUNTED },
  )
  for (const { name } of tables) await clickhouse.command(`TRUNCATE TABLE ${name}`)
  await dropValueColumns(clickhouse, [...(await readValueColumns(clickhouse))])
  return { url, clickhouse }
}

async function start() {
  const { url } = await startClickHouse(root)
  const clickhouse = new ClickHouse({ url })
  root.teardown(() => clickhouse.close())
  await migrate(clickhouse)
  return { url, clickhouse }
}
