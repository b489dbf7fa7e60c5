import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from './clickhouse.js'
import { Fields, literal } from './fields.js'

/** A mutation that takes longer is left to itself; ClickHouse goes on with it. */
const MUTATION_LIMIT_MS = 6 * 60 * 60 * 1000
const MIN_POLL_MS = 20
const MAX_POLL_MS = 1_000
/** Keys of one statement at most. */
const MAX_KEYS = 10_000

/** Rewrites the parts that hold events which were deleted, or properties which were replaced. */
export async function purgeEvents(clickhouse: ClickHouse, signal: AbortSignal): Promise<void> {
  const [first] = await clickhouse.rows(
    `SELECT 1 FROM system.parts
     WHERE database = currentDatabase() AND table = 'events' AND active
       AND (has_lightweight_delete OR startsWith(partition_id, 'patch-'))
     LIMIT 1`,
  )
  if (!first) return
  // Two statements: in one, or while the first is under way, ClickHouse 26.7 drops no row whose patch it has just applied.
  await mutate(clickhouse, 'events', 'APPLY PATCHES', signal)
  await mutate(clickhouse, 'events', 'APPLY DELETED MASK', signal)
}

/** What names a row. */
const NAME = { profiles: 'distinct_id', sessions: 'session_id' }

/**
 * Removes all that came before a deletion. The row that says so stays, as it keeps an older one out that may still come;
 * it has no properties.
 */
export async function purgeOldRows(
  clickhouse: ClickHouse,
  table: 'profiles' | 'sessions',
  signal: AbortSignal,
): Promise<void> {
  const name = NAME[table]
  for (;;) {
    const rows = await clickhouse.rows<{ project_id: string; name: string; deleted: string }>(
      `SELECT project_id, ${name} AS name, maxIf(version, is_deleted = 1) AS deleted
       FROM ${table}
       WHERE (project_id, ${name}) IN (SELECT project_id, ${name} FROM ${table} WHERE is_deleted = 1)
       GROUP BY project_id, ${name}
       HAVING countIf(is_deleted = 0) > 0 AND minIf(version, is_deleted = 0) < deleted
       ORDER BY project_id
       LIMIT ${MAX_KEYS}`,
    )
    const projectId = rows[0]?.project_id
    if (projectId === undefined) return
    const ofProject = rows.filter(({ project_id }) => project_id === projectId)
    const fields = new Fields()
    const names = `[${ofProject.map(({ name }) => literal(name)).join(', ')}]`
    const versions = ofProject.map(({ deleted }) => `toUInt64(${BigInt(deleted)})`)
    await mutate(
      clickhouse,
      table,
      `DELETE WHERE project_id = ${fields.text(projectId)} AND ${name} IN ${names}
         AND version < transform(${name}, ${names}, [${versions.join(', ')}], toUInt64(0))`,
      signal,
      fields,
    )
  }
}

/** How long a part that was rewritten stays on disk at most, ms: until two clean-ups have found that nobody reads it. */
export async function oldPartsLifetime(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ seconds: string }>(
    `SELECT sum(if(name = 'old_parts_lifetime', 1, 2) * toUInt64(value)) AS seconds
     FROM system.merge_tree_settings
     WHERE name IN ('old_parts_lifetime', 'max_cleanup_delay_period')`,
  )
  return Number(row?.seconds ?? 0) * 1000
}

/** Resolves when the table has no mutation left to do. */
async function mutate(
  clickhouse: ClickHouse,
  table: string,
  change: string,
  signal: AbortSignal,
  { parameters }: Fields = new Fields(),
): Promise<void> {
  await clickhouse.command(`ALTER TABLE ${table} ${change}`, parameters, { mutations_sync: '0' })
  const deadline = Date.now() + MUTATION_LIMIT_MS
  for (let pollMs = MIN_POLL_MS; ; pollMs = Math.min(2 * pollMs, MAX_POLL_MS)) {
    const [waiting] = await clickhouse.rows<{ latest_fail_reason: string }>(
      `SELECT latest_fail_reason FROM system.mutations
       WHERE database = currentDatabase() AND table = {table:String} AND NOT is_done
       LIMIT 1`,
      { table },
    )
    if (!waiting) return
    if (Date.now() > deadline)
      throw new Error(`${table} is not rewritten yet: ${waiting.latest_fail_reason || 'it takes long'}`)
    await wait(pollMs, undefined, { signal })
  }
}
