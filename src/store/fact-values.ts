import { createHash } from 'node:crypto'
import type { ClickHouse } from '../clickhouse/client.js'

/**
 * Properties whose values have a column of their own in `event_facts`. It is computed from the text of the properties, in parts
 * that were written before, when it is read; so a question may read any column that exists.
 */

/** Maximum number of them. Each costs some 0.3 µs per event that is copied. */
export const MAX_VALUE_COLUMNS = 20
const PREFIX = 'value_'
/** Longer paths have no columns. */
const MAX_PATH_CHARACTERS = 200

/** The name of the column with the values of a property. @param path of names within the properties */
export function nameValueColumn(path: readonly string[]): string {
  return `${PREFIX}${createHash('sha256').update(JSON.stringify(path)).digest('hex').slice(0, 16)}`
}

/** Whether a property may have a column: unpaired surrogates are found in repaired texts only. */
export function mayHaveColumn(path: readonly string[]): boolean {
  return path.every((name) => name.isWellFormed()) && path.join('').length <= MAX_PATH_CHARACTERS
}

/** @param table one with facts: columns are there if both it and `event_facts` have them */
export async function readValueColumns(clickhouse: ClickHouse, table = 'event_facts'): Promise<Set<string>> {
  const rows = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM system.columns
     WHERE database = currentDatabase() AND table IN ('event_facts', {table:String}) AND startsWith(name, '${PREFIX}')
     GROUP BY name HAVING count() = if({table:String} = 'event_facts', 1, 2)`,
    { table },
  )
  return new Set(rows.map(({ name }) => name))
}

/** Gives a property a column, which ClickHouse fills in the background. */
export async function addValueColumn(clickhouse: ClickHouse, path: readonly string[]): Promise<void> {
  const name = nameValueColumn(path)
  const names = path.map((part) => `unhex('${Buffer.from(part).toString('hex')}')`)
  await clickhouse.command(
    `ALTER TABLE event_facts ADD COLUMN IF NOT EXISTS ${name} LowCardinality(String)
     MATERIALIZED JSONExtractRaw(properties, ${names.join(', ')}) CODEC(ZSTD(1))`,
  )
  await clickhouse.command(`ALTER TABLE event_facts MATERIALIZE COLUMN ${name}`, {}, { mutations_sync: '0' })
}

export async function dropValueColumns(clickhouse: ClickHouse): Promise<void> {
  const columns = Array.from(await readValueColumns(clickhouse), (name) => `DROP COLUMN IF EXISTS ${name}`)
  if (columns.length > 0) await clickhouse.command(`ALTER TABLE event_facts ${columns.join(', ')}`)
}
