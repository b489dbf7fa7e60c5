import type { Shards } from '../clickhouse/shards.js'

/** What a project has used. */
export interface Used {
  /** accepted events */
  events: number
  /** bytes of their entries in the journal */
  bytes: number
  /** how long ClickHouse worked on the project's reads, ms */
  readMs: number
}

/** The count of one process for one project and day. */
export interface UsageCount extends Used {
  projectId: string
  /** UTC, such as `2026-11-26` */
  day: string
  version: number
}

/** Replaces counts of a process with higher ones. */
export async function writeUsage(shards: Shards, process: string, counts: readonly UsageCount[]): Promise<void> {
  if (counts.length === 0) return
  const rows = counts.map(({ projectId: project_id, readMs, ...rest }) =>
    JSON.stringify({ project_id, process, read_ms: Math.round(readMs), ...rest }),
  )
  await shards.on(shards.at(0), ({ clickhouse }) =>
    clickhouse.command(`INSERT INTO project_usage FORMAT JSONEachRow\n${rows.join('\n')}`, {}, {}, WRITE_LIMIT_MS),
  )
}

/** The service goes on without the counts of other processes rather than wait for longer. */
const WRITE_LIMIT_MS = 2_000

/**
 * What a project has used by day.
 * @param range `from` and `to` are the first and the last day; without the count of one process on one day, if it knows that better
 */
export async function readUsage(
  shards: Shards,
  projectId: string,
  { from, to = LAST_DAY, without = NOTHING }: { from: string; to?: string; without?: typeof NOTHING },
  limitMs?: number,
): Promise<Map<string, Used>> {
  const rows = await shards.on(shards.at(0), ({ clickhouse }) =>
    clickhouse.rows<{ date: string; all_events: string; all_bytes: string; all_ms: string }>(
      `SELECT toString(day) AS date, sum(events) AS all_events, sum(bytes) AS all_bytes, sum(read_ms) AS all_ms
       FROM project_usage FINAL
       WHERE project_id = {project:String} AND day BETWEEN {from:Date} AND {to:Date} AND NOT (process = {process:UUID} AND day = {day:Date})
       GROUP BY day ORDER BY day`,
      { project: projectId, from, to, ...without },
      {},
      { limitMs },
    ),
  )
  return new Map(
    rows.map(({ date, all_events, all_bytes, all_ms }) => [
      date,
      { events: Number(all_events), bytes: Number(all_bytes), readMs: Number(all_ms) },
    ]),
  )
}

/** The last day that ClickHouse knows. */
const LAST_DAY = '2149-06-06'

const NOTHING = { process: '00000000-0000-0000-0000-000000000000', day: '1970-01-01' }

/** The tables that grow with what a project sends. */
const TABLES = ['events', 'profiles', 'sessions', 'dead_letters']

/**
 * Bytes that a project has on the disks of all shards, estimated: of each partition, the share of its rows.
 */
export async function readStoredBytes(shards: Shards, projectId: string): Promise<number> {
  const found = await shards.each(({ clickhouse }) =>
    clickhouse.rows<{ bytes: string }>(
      TABLES.map(
        (table) => `
        SELECT toUInt64(sum(n * size / all_rows)) AS bytes
        FROM (SELECT _partition_id AS id, count() AS n FROM ${table} WHERE project_id = {project:String} GROUP BY id) AS own
        INNER JOIN (
          SELECT partition_id AS id, sum(bytes_on_disk) AS size, sum(rows) AS all_rows FROM system.parts
          WHERE database = currentDatabase() AND table = '${table}' AND active GROUP BY id
        ) AS parts USING (id)`,
      ).join(' UNION ALL '),
      { project: projectId },
    ),
  )
  return found.flat().reduce((sum, { bytes }) => sum + Number(bytes), 0)
}

/** The number of names of events that a project has had since a day (UTC), and not before. */
export async function countNewEventNames(shards: Shards, projectId: string, firstId: string): Promise<number> {
  const events = `${shards.table('events')} WHERE project_id = {project:String} AND toUInt128(event_id)`
  const rows = await shards.rows<{ count: string }>(
    `SELECT uniqExact(event) AS count FROM ${events} >= toUInt128({first:UUID})
       AND event GLOBAL NOT IN (SELECT event FROM ${events} < toUInt128({first:UUID}) GROUP BY event)`,
    { project: projectId, first: firstId },
    { max_threads: 1 },
  )
  return Number(rows[0]?.count ?? 0)
}
