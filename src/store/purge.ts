import { setTimeout as wait } from 'node:timers/promises'
import { type ClickHouse, StoreError } from './clickhouse.js'
import { Fields, literal } from './fields.js'

/** A mutation that takes longer is left to itself; ClickHouse goes on with it. */
const MUTATION_LIMIT_MS = 6 * 60 * 60 * 1000
/** What one partition may take, which ClickHouse keeps under 150 GB. */
const REWRITE_LIMIT_MS = 60 * 60 * 1000
const SIGN_OF_LIFE_MS = 60_000
/** Of ClickHouse, where parts of the partition are being merged already. */
const CANNOT_ASSIGN_OPTIMIZE = 388
const MIN_POLL_MS = 20
const MAX_POLL_MS = 1_000
/** Keys of one statement at most. */
const MAX_KEYS = 10_000

/**
 * Rewrites the partitions that hold events which were deleted, or properties which were replaced.
 *
 * By a merge, not by a mutation: ClickHouse 26.7's APPLY PATCHES forgets the edits and deletes that are under way when it
 * begins (91 of 180 in a trial); a merge lets them stand.
 */
export async function purgeEvents(clickhouse: ClickHouse, signal: AbortSignal): Promise<void> {
  // The name of a patch's partition ends with that of the partition which it belongs to.
  const partitions = await clickhouse.rows<{ id: string }>(
    `SELECT DISTINCT splitByChar('-', partition_id)[-1] AS id FROM system.parts
     WHERE database = currentDatabase() AND table = 'events' AND active
       AND (has_lightweight_delete OR startsWith(partition_id, 'patch-'))`,
  )
  for (const { id } of partitions) await mergeAll(clickhouse, id, signal)
}

/** Makes one part of a partition, without the rows that were deleted before the call. */
async function mergeAll(clickhouse: ClickHouse, partition: string, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + REWRITE_LIMIT_MS
  for (;;) {
    try {
      await clickhouse.command(
        'OPTIMIZE TABLE events PARTITION ID {partition:String} FINAL',
        { partition },
        {
          optimize_skip_merged_partitions: 0,
          optimize_throw_if_noop: 1,
          // Else a connection on which nothing comes for two minutes would be given up.
          send_progress_in_http_headers: 1,
          http_headers_progress_interval_ms: String(SIGN_OF_LIFE_MS),
        },
        REWRITE_LIMIT_MS,
      )
      return
    } catch (error) {
      const isBusy = error instanceof StoreError && error.code === CANNOT_ASSIGN_OPTIMIZE
      if (!isBusy || Date.now() > deadline) throw error
      await wait(MAX_POLL_MS, undefined, { signal })
    }
  }
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
