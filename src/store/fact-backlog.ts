import type { ClickHouse } from '../clickhouse/client.js'
import { orIfDenied } from '../clickhouse/errors.js'
import { literal, literalArray } from '../clickhouse/parameters.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import type { ChangeScope } from './event-changes.js'
import { REPLAYED } from './insert.js'

/** The `log_comment` of every statement of a leader. The next leader finds by it which ones are still running. */
export const FACTS_COMMENT = 'facts'

/** Events of a project: those with ids after `lo`, up to `hi`. */
export interface FactRange {
  projectId: string
  lo: bigint
  hi: bigint
}

/**
 * A project with fewer events has no facts, unless all projects do: its questions take at most 0.1 s without them. (On
 * a busy machine, a breakdown by a property takes as long without facts for 15 000 events, twice as long for 100 000; a
 * question about names and users takes as long for 100 000.) Thousands of small projects would share each step.
 */
export const MIN_EVENTS = 50_000

/** Events that are not copied yet; an estimate that is never too low. */
export interface Waiting {
  rows: number
  /** size of their properties */
  bytes: number
}

const ID = 'toUInt128(event_id)'

/** Projects in one counting statement, which has a condition for each. */
const COUNTED_TOGETHER = 100

/**
 * Counts the events of each project on a shard that are not copied yet. Their bytes are estimated by the average of all
 * events.
 * @param progress by project: facts have its events up to here
 */
export async function countEvents(
  clickhouse: ClickHouse,
  progress: ReadonlyMap<string, bigint>,
): Promise<Map<string, Waiting>> {
  const known = [...progress]
  const conditions = [`project_id NOT IN ${literalArray([...progress.keys()])}`]
  for (let i = 0; i < known.length; i += COUNTED_TOGETHER) {
    const later = known.slice(i, i + COUNTED_TOGETHER).map(([projectId, hi]) => {
      return `(project_id = ${literal(projectId)} AND ${ID} > toUInt128('${hi}'))`
    })
    conditions.push(later.join(' OR '))
  }
  const found = new Map<string, Waiting>()
  for (const condition of conditions) {
    const rows = await clickhouse.rows<{ project: string; count: string; average: number }>(
      `SELECT project_id AS project, count() AS count, (
         SELECT sum(data_uncompressed_bytes) / greatest(1, sum(rows)) FROM system.parts
         WHERE database = currentDatabase() AND table = 'events' AND active
       ) AS average
       FROM events WHERE ${condition} GROUP BY project`,
      {},
      {},
      { limitMs: DELETE_LIMIT_MS },
    )
    for (const { project, count, average } of rows) {
      found.set(project, { rows: Number(count), bytes: Number(count) * average })
    }
  }
  return found
}

/** Counts the events of each project with ids after `after`, up to `upTo`. */
export async function countEventsBetween(
  clickhouse: ClickHouse,
  after: bigint,
  upTo: bigint,
): Promise<Map<string, Waiting>> {
  const rows = await clickhouse.rows<{ project: string; count: string; bytes: string }>(
    `SELECT project_id AS project, count() AS count, sum(length(properties)) AS bytes FROM events
     WHERE ${ID} > {after:UInt128} AND ${ID} <= {upTo:UInt128} GROUP BY project`,
    { after: String(after), upTo: String(upTo) },
    {},
    { limitMs: DELETE_LIMIT_MS },
  )
  return new Map(rows.map(({ project, count, bytes }) => [project, { rows: Number(count), bytes: Number(bytes) }]))
}

/**
 * Finds the end of a step that begins after an id: the last event that fits, and at least one event.
 * @returns null if there are no events
 */
export async function findStepEnd(
  clickhouse: ClickHouse,
  range: FactRange,
  most: Waiting,
): Promise<({ hi: bigint } & Waiting) | null> {
  // To read in the order of the ids, ClickHouse reads a block of each part that may have some; one month has few parts.
  for (const last of await listMonthEnds(clickhouse, range.lo)) {
    if (last >= range.hi) break
    const end = await findEnd(clickhouse, { ...range, hi: last }, most)
    if (end) return end
  }
  return await findEnd(clickhouse, range, most)
}

/** The last possible ids of the months that have events, in order, from the month of an id on. */
async function listMonthEnds(clickhouse: ClickHouse, from: bigint): Promise<bigint[]> {
  const months = await clickhouse.rows<{ month: string }>(
    `SELECT DISTINCT partition_id AS month FROM system.parts
     WHERE database = currentDatabase() AND table = 'events' AND active AND NOT startsWith(partition_id, 'patch-')
     ORDER BY month`,
  )
  const ends = months.map(({ month }) => {
    const next = Date.UTC(Number(month.slice(0, 4)), Number(month.slice(4)))
    // The upper 48 bits are the time at which the event was accepted.
    return (BigInt(next) << 80n) - 1n
  })
  return ends.filter((end) => end > from)
}

async function findEnd(
  clickhouse: ClickHouse,
  { projectId, lo, hi }: FactRange,
  most: Waiting,
): Promise<({ hi: bigint } & Waiting) | null> {
  const [row] = await clickhouse.rows<{ hi: string; count: string; bytes: string }>(
    `SELECT toString(max(id)) AS hi, count() AS count, max(total) AS bytes FROM (
       SELECT id, sum(size) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total, row_number() OVER (ORDER BY id) AS n
       FROM (
         SELECT ${ID} AS id, length(properties) AS size FROM events
         WHERE project_id = {project:String} AND ${ID} > {lo:UInt128} AND ${ID} <= {hi:UInt128}
         ORDER BY ${ID} LIMIT {rows:UInt64}
       )
     ) WHERE n = 1 OR total <= {bytes:UInt64}`,
    { project: projectId, lo: String(lo), hi: String(hi), ...most },
    { max_threads: 1 },
    { limitMs: DELETE_LIMIT_MS },
  )
  const count = Number(row?.count ?? 0)
  return row && count > 0 ? { hi: BigInt(row.hi), rows: count, bytes: Number(row.bytes) } : null
}

/** The ids of running statements that may belong to a change; null if the user may not see them. */
export async function findStatements(clickhouse: ClickHouse, scope: ChangeScope): Promise<string[] | null> {
  const running = clickhouse.rows<{ id: string }>(
    `SELECT query_id AS id FROM system.processes
     WHERE current_database = currentDatabase() AND ${matchStatements(scope)}`,
  )
  return (await orIfDenied(running, null))?.map(({ id }) => id) ?? null
}

/** SQL condition for running statements that may belong to a change. */
function matchStatements({ kind, ...scope }: ChangeScope): string {
  if (kind === 'entry' && !('deleted' in scope)) {
    return `endsWith(Settings['insert_deduplication_token'], '${REPLAYED}')`
  }
  if (kind === 'calls') return "query_kind = 'Insert' AND position(query, 'INSERT INTO sessions (') > 0"
  return `query_kind IN ('Delete', 'Update') AND Settings['log_comment'] != '${FACTS_COMMENT}'`
}

/** Free space that copying leaves for events, bytes; on a large disk, a twentieth of it. */
const MIN_FREE = 2 * 1024 ** 3
const MAX_LEFT = 20 * 1024 ** 3

/** The disks that may hold facts; all disks, if the user may not read the storage policy. */
const DISKS = [
  `name IN (SELECT arrayJoin(disks) FROM system.storage_policies WHERE policy_name = (
     SELECT storage_policy FROM system.tables WHERE database = currentDatabase() AND name = 'event_facts'))`,
  '1',
]

/** Whether a disk that may hold a shard's facts has too little room for copies. */
export async function isDiskShort(clickhouse: ClickHouse): Promise<boolean> {
  for (const which of DISKS) {
    const short = clickhouse.rows(
      `SELECT 1 FROM system.disks
       WHERE toFloat64(free_space) < greatest(toFloat64(${MIN_FREE}), least(total_space / 20, toFloat64(${MAX_LEFT})))
         AND ${which} LIMIT 1`,
    )
    const rows = await orIfDenied(short, null)
    if (rows) return rows.length > 0
  }
  // The user may not read system.disks.
  return false
}
