import type { ClickHouse } from '../clickhouse/client.js'
import { findUnreadablePart } from '../clickhouse/errors.js'

/** An active part of any of our tables. */
export interface CheckedPart {
  table: string
  partition: string
  name: string
  bytes: number
}

/** How long ClickHouse may take to check one part, ms; it reads some 500 MB a second. */
const LIMIT_MS = 60 * 60_000

/** All active parts of our tables, newest first. */
export async function listPartsToCheck(clickhouse: ClickHouse): Promise<CheckedPart[]> {
  const rows = await clickhouse.rows<Record<'table' | 'partition' | 'name' | 'bytes', string>>(
    `SELECT table, partition_id AS partition, name, bytes_on_disk AS bytes FROM system.parts
     WHERE database = currentDatabase() AND active ORDER BY modification_time DESC, name`,
  )
  return rows.map(({ bytes, ...part }) => ({ ...part, bytes: Number(bytes) }))
}

/**
 * Makes ClickHouse compare the files of a part with their checksums, in one thread.
 * @returns what is wrong with the part; null if it is intact or no longer active
 */
export async function checkPart(
  clickhouse: ClickHouse,
  { table, name }: Pick<CheckedPart, 'table' | 'name'>,
  signal?: AbortSignal,
): Promise<string | null> {
  if (!/^\w+$/.test(table) || !/^[\w-]+$/.test(name)) throw new Error(`${table} ${name} is not a part`)
  try {
    const rows = await clickhouse.rows<{ is_passed: number; message: string }>(
      `CHECK TABLE ${table} PART '${name}'`,
      {},
      { check_query_single_value_result: 0, max_threads: 1, priority: '10' },
      { limitMs: LIMIT_MS, ...(signal && { signal }) },
    )
    return rows.find(({ is_passed }) => is_passed === 0)?.message ?? null
  } catch (error) {
    if (findUnreadablePart(error)) return (error as Error).message
    if (!(await isInUse(clickhouse, name))) return null
    throw error
  }
}

async function isInUse(clickhouse: ClickHouse, name: string): Promise<boolean> {
  const rows = await clickhouse.rows(
    'SELECT 1 FROM system.parts WHERE database = currentDatabase() AND active AND name = {name:String} LIMIT 1',
    { name },
  )
  return rows.length > 0
}
