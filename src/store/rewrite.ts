import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError, type StoreError } from '../clickhouse/errors.js'
import { LARGE_QUERY, literal, literalArray, type Parameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { StateKind } from '../model/state-key.js'
import { VERSIONED_TABLES } from './newest-rows.js'
import { removeSessionFacts } from './session-facts.js'

/** How long to wait for a mutation, ms; ClickHouse completes it anyway. */
const MUTATION_LIMIT_MS = 6 * 60 * 60 * 1000
/** Time limit for rewriting a partition, ms. ClickHouse keeps parts under 150 GB. */
const REWRITE_LIMIT_MS = 60 * 60 * 1000
const MIN_POLL_MS = 20
const MAX_POLL_MS = 1_000
/** Maximum number of keys in one statement, which rewrites every part that holds one of them. */
const MAX_KEYS = 50_000

/** ClickHouse's disk has no room for the rewritten copy of a partition; the message says what to do. */
export class DiskSpaceError extends Error {
  override readonly name = 'DiskSpaceError'
}

/** Deleted data that is still on disk in a partition or a table. Ages are by the store's clock. */
export interface Leftovers {
  /** the events' partition (a month), or the table */
  id: string
  /** age of the oldest known deletion, ms */
  deletedForMs: number
  /** age of the largest part, ms, which has not been rewritten since */
  writtenForMs: number
}

/** SQL of the age of a DateTime, in ms with a resolution of a second. */
const age = (time: string) => `1000 * greatest(0, toUnixTimestamp(now()) - toUnixTimestamp(${time}))`

/** Tables whose rows are deleted one by one. */
type EventTable = 'events' | 'event_facts'

/**
 * The partitions of `events` or of its facts that still contain deleted rows. A deletion is a patch part with a lightweight delete.
 * It is done when no part of its partition has an older data version. Replaced properties do not count, because the
 * next merge removes them.
 */
export async function findEventLeftovers(clickhouse: ClickHouse, table: EventTable = 'events'): Promise<Leftovers[]> {
  // The name of a patch's partition ends with the name of the partition that it applies to.
  const rows = await clickhouse.rows<{ id: string; deleted: string; written: string }>(
    `SELECT
         splitByChar('-', partition_id)[-1] AS id,
         minIf(data_version, NOT is_patch) AS oldest,
         groupArrayIf((if(is_patch, data_version, 18446744073709551615), modification_time), has_lightweight_delete) AS deletes,
         arrayFilter(part -> part.1 > oldest, deletes) AS waiting,
         ${age('arrayMin(part -> part.2, waiting)')} AS deleted,
         ${age('argMaxIf(modification_time, bytes_on_disk, NOT is_patch)')} AS written
     FROM (
         SELECT *, startsWith(partition_id, 'patch-') AS is_patch FROM system.parts
         WHERE database = currentDatabase() AND table = {table:String} AND active
     )
     GROUP BY id
     HAVING countIf(NOT is_patch) > 0 AND notEmpty(waiting)
     ORDER BY sumIf(bytes_on_disk, NOT is_patch)`,
    { table },
  )
  return rows.map(toLeftovers)
}

/** The tables that still contain earlier versions of deleted rows. */
export async function findTableLeftovers(clickhouse: ClickHouse): Promise<(Leftovers & { id: StateKind })[]> {
  const rows = await clickhouse.rows<{ id: StateKind; deleted: string; written: string }>(
    `SELECT id, deleted, written
     FROM (SELECT kind AS id, ${age('min(noted_at)')} AS deleted FROM deletions GROUP BY kind) AS noted
     LEFT JOIN (
         SELECT table AS id, ${age('argMax(modification_time, bytes_on_disk)')} AS written FROM system.parts
         WHERE database = currentDatabase() AND table IN ('profiles', 'sessions', 'aliases') AND active
         GROUP BY table
     ) AS parts USING (id)
     ORDER BY id`,
  )
  return rows.map((row) => ({ ...toLeftovers(row), id: row.id }))
}

function toLeftovers({ id, deleted, written }: { id: string; deleted: string; written: string }): Leftovers {
  return { id, deletedForMs: Number(deleted), writtenForMs: Number(written) }
}

/**
 * Rewrites a partition of `events` or of its facts without rows that were deleted before the call, and with edited
 * properties applied.
 *
 * Uses a merge instead of a mutation, because APPLY PATCHES of ClickHouse 26.7 loses edits and deletes that are running
 * when it begins (91 of 180 in a test); a merge keeps them.
 * @throws DiskSpaceError if there is no room for the copy
 */
export async function rewriteParts(
  clickhouse: ClickHouse,
  partition: string,
  signal: AbortSignal,
  table: EventTable = 'events',
): Promise<void> {
  const deadline = Date.now() + REWRITE_LIMIT_MS
  for (;;) {
    try {
      await clickhouse.command(
        `OPTIMIZE TABLE ${table} PARTITION ID {partition:String} FINAL`,
        { partition },
        { optimize_skip_merged_partitions: 0, optimize_throw_if_noop: 1 },
        REWRITE_LIMIT_MS,
      )
      return
    } catch (error) {
      if (isShortOfDisk(error)) throw await toDiskSpaceError(clickhouse, { table, partition }, error)
      const isBusy = isStoreError(error, 'CANNOT_ASSIGN_OPTIMIZE')
      if (!isBusy || Date.now() > deadline) throw error
      await wait(MAX_POLL_MS, undefined, { signal })
      // Perhaps the partition was busy because another process was rewriting it.
      if (!(await findEventLeftovers(clickhouse, table)).some(({ id }) => id === partition)) return
    }
  }
}

/**
 * CANNOT_ASSIGN_OPTIMIZE says that parts of the partition are being merged already, or that the disk has no room for
 * the merged part; the two differ only in the message.
 */
function isShortOfDisk(error: unknown): error is StoreError {
  if (isStoreError(error, 'NOT_ENOUGH_SPACE')) return true
  return isStoreError(error, 'CANNOT_ASSIGN_OPTIMIZE') && /free space|disk space/i.test(error.words)
}

async function toDiskSpaceError(
  clickhouse: ClickHouse,
  { table, partition }: { table: EventTable; partition: string },
  error: StoreError,
): Promise<DiskSpaceError> {
  const [sizes] = await clickhouse.rows<{ size: string; free: string }>(
    `SELECT formatReadableSize(sum(bytes_on_disk)) AS size,
       (SELECT formatReadableSize(sum(unreserved_space)) FROM system.disks) AS free
     FROM system.parts
     WHERE database = currentDatabase() AND table = {table:String} AND active AND partition_id = {partition:String}`,
    { table, partition },
  )
  return new DiskSpaceError(
    `The disk of ClickHouse is too full to remove deleted events from it: the month ${partition} has ${sizes?.size}, ` +
      `and twice as much must be free while it is rewritten, but only ${sizes?.free} are. Free space or enlarge the disk; the purge is retried automatically.`,
    { cause: error },
  )
}

interface NotedDeletion {
  project_id: string
  name: string
  deleted: string
}

/**
 * Removes the earlier versions of deleted rows. The row that marks the deletion stays, because an older version may
 * still arrive; it has no properties. Processes the table `deletions`, some thousands of rows at a time, so an
 * interrupted run resumes where it was.
 *
 * A deletion is noted on the shard that has its row. Earlier versions may be on any shard, because lanes may have had
 * other shards then, so it stays noted until all shards are rewritten. A failure does not stop the other deletions.
 * @param noted the shard whose `deletions` are processed
 * @param shards the shards that may have earlier versions
 */
export async function purgeOldRows(
  noted: ClickHouse,
  shards: Shards,
  table: StateKind,
  signal: AbortSignal,
): Promise<void> {
  let after = { project: '', name: '' }
  let failure: { error: unknown } | null = null
  for (;;) {
    const rows = await readNextDeletions(noted, table, after)
    const last = rows.at(-1)
    if (!last) break
    after = { project: last.project_id, name: last.name }
    const { isNamed, deleted } = matchNames(rows, VERSIONED_TABLES[table].key)
    const isOld = `${isNamed} AND version < ${deleted}`
    try {
      await shards.each(async ({ clickhouse }) => {
        const found = await clickhouse.rows(`SELECT 1 FROM ${table} WHERE ${isOld} LIMIT 1`, {}, LARGE_QUERY)
        if (table === 'sessions')
          await removeSessionFacts(clickhouse, last.project_id, { ids: rows.map(({ name }) => name) })
        if (found.length > 0) await mutate(clickhouse, table, `DELETE WHERE ${isOld}`, signal)
      })
    } catch (error) {
      signal.throwIfAborted()
      failure ??= { error }
      continue
    }
    // A later deletion of the same name stays noted. No need to wait: at worst, a deletion that is still noted is
    // processed again.
    const done = matchNames(rows, 'name')
    await noted.command(
      `ALTER TABLE deletions DELETE WHERE kind = '${table}' AND ${done.isNamed} AND version <= ${done.deleted}`,
      {},
      { mutations_sync: '0' },
    )
  }
  if (failure) throw failure.error
}

/** Some deletions of one project, by name. */
async function readNextDeletions(
  clickhouse: ClickHouse,
  table: StateKind,
  after: { project: string; name: string },
): Promise<NotedDeletion[]> {
  const noted = await clickhouse.rows<NotedDeletion>(
    `SELECT project_id, name, max(version) AS deleted FROM deletions
     WHERE kind = {table:String}
       AND (project_id > {project:String} OR (project_id = {project:String} AND name > {name:String}))
     GROUP BY project_id, name ORDER BY project_id, name
     LIMIT ${MAX_KEYS}`,
    { table, ...after },
  )
  return noted.filter(({ project_id }) => project_id === noted[0]?.project_id)
}

/** SQL for whether a column has one of the names, and for the version of that name's deletion. */
function matchNames(rows: NotedDeletion[], column: string): { isNamed: string; deleted: string } {
  const names = literalArray(rows.map(({ name }) => name))
  const versions = `CAST([${rows.map(({ deleted }) => BigInt(deleted)).join()}], 'Array(UInt64)')`
  const isNamed = `project_id = ${literal(rows[0]?.project_id ?? '')} AND ${column} IN ${names}`
  return { isNamed, deleted: `transform(${column}, ${names}, ${versions}, toUInt64(0))` }
}

/** How long a part stays on disk after it was rewritten, ms: until two clean-ups have found that no query reads it. */
export async function readOldPartsLifetime(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ seconds: string }>(
    `SELECT sum(if(name = 'old_parts_lifetime', 1, 2) * toUInt64(value)) AS seconds
     FROM system.merge_tree_settings
     WHERE name IN ('old_parts_lifetime', 'max_cleanup_delay_period')`,
  )
  return Number(row?.seconds ?? 0) * 1000
}

/** Runs a mutation, and resolves when the table has no unfinished mutation. */
export async function mutate(
  clickhouse: ClickHouse,
  table: StateKind,
  change: string,
  signal: AbortSignal,
  values: Parameters = {},
): Promise<void> {
  await clickhouse.command(`ALTER TABLE ${table} ${change}`, values, { mutations_sync: '0' })
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
      throw new Error(`${table} is not rewritten yet: ${waiting.latest_fail_reason || 'it takes too long'}`)
    await wait(pollMs, undefined, { signal })
  }
}
