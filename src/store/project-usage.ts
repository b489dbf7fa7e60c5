import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { LAST_DAY } from '../contract/limits.js'
import { formatEventId } from '../model/event-id.js'
import { insertRows } from './insert.js'
import { partitionSizes } from './parts.js'

/** The usage of a project. */
interface Used {
  /** accepted events */
  events: number
  /** bytes of their entries in the journal */
  bytes: number
  /** CPU time of ClickHouse for the project's reads, ms; null if ClickHouse does not tell */
  readCpuMs: number | null
}

/** The usage of a project on one day. */
export interface UsedOnDay extends Used {
  /** bytes on the disks of all shards, as last measured; 0 if they were not */
  storedBytes: number
  /** number of processes that have counted it */
  processes: number
}

/** The count of one process for one project and day. */
export interface UsageCount extends Used {
  projectId: string
  /** UTC, such as `2026-11-26` */
  day: string
  /** UUID */
  process: string
  version: number
}

/** Replaces counts with counts of higher versions. */
export async function writeUsage(shards: Shards, counts: readonly UsageCount[]): Promise<void> {
  const rows = counts.map(({ projectId: project_id, readCpuMs, ...rest }) => {
    return { project_id, read_cpu_ms: readCpuMs && Math.round(readCpuMs), ...rest }
  })
  await shards.onFirst((clickhouse) => insertRows(clickhouse, 'project_usage', rows, WRITE_LIMIT_MS))
}

/**
 * Replaces what all projects have on the disks on a day.
 * @param version higher than that of earlier measurements
 */
export async function writeStoredBytes(
  shards: Shards,
  day: string,
  bytes: ReadonlyMap<string, number>,
  version: number,
): Promise<void> {
  const rows = Array.from(bytes, ([project_id, stored_bytes]) => {
    return { project_id, day, ...ALL_PROCESSES, stored_bytes, version }
  })
  await shards.onFirst((clickhouse) => insertRows(clickhouse, 'project_usage', rows, WRITE_LIMIT_MS))
}

/** Time limit for storing counts, ms; after that, the service continues without the counts of other processes. */
const WRITE_LIMIT_MS = 2_000

/**
 * Reads the usage by project and day.
 * @param projectIds null: all that have used anything
 * @param range the first and last day; can leave out the stored count of one process on one day, for which that process
 * has a newer one
 */
export async function readUsage(
  shards: Shards,
  projectIds: readonly string[] | null,
  { from, to = LAST_DAY, without = NOTHING }: { from: string; to?: string; without?: typeof NOTHING },
  limitMs?: number,
): Promise<Map<string, Map<string, UsedOnDay>>> {
  const fields = new QueryParameters()
  const isWanted = projectIds === null ? '1' : `project_id IN ${fields.array([...projectIds])}`
  const rows = await shards.onFirst((clickhouse) =>
    clickhouse.rows<UsageRow>(
      `SELECT project_id AS project, toString(day) AS date,
         sum(events) AS all_events, sum(bytes) AS all_bytes, sum(stored_bytes) AS stored,
         if(countIf(isNull(read_cpu_ms)) > 0, NULL, sum(read_cpu_ms)) AS cpu_ms,
         countIf(process != '${ALL_PROCESSES.process}') AS processes
       FROM project_usage FINAL
       WHERE ${isWanted} AND day BETWEEN {from:Date} AND {to:Date}
         AND NOT (process = {process:UUID} AND day = {day:Date})
       GROUP BY project, day ORDER BY day`,
      { ...fields.parameters, from, to, ...without },
      {},
      { limitMs },
    ),
  )
  const used = new Map((projectIds ?? []).map((id) => [id, new Map<string, UsedOnDay>()]))
  for (const { project, date, all_events, all_bytes, stored, cpu_ms, processes } of rows) {
    const days = used.get(project) ?? new Map<string, UsedOnDay>()
    const day = {
      events: Number(all_events),
      bytes: Number(all_bytes),
      storedBytes: Number(stored),
      readCpuMs: cpu_ms === null ? null : Number(cpu_ms),
      processes: Number(processes),
    }
    used.set(project, days.set(date, day))
  }
  return used
}

interface UsageRow extends Record<'project' | 'date' | 'all_events' | 'all_bytes' | 'stored' | 'processes', string> {
  cpu_ms: string | null
}

/** In place of a process, for what is measured for all of them together. */
const ALL_PROCESSES = { process: '00000000-0000-0000-0000-000000000000' }
const NOTHING = { ...ALL_PROCESSES, day: '1970-01-01' }

/** The tables that grow with what a project sends, including the copies for questions. */
const TABLES = ['events', 'profiles', 'sessions', 'aliases', 'dead_letters', 'event_facts', 'session_facts']

/** Time limit for a check of all projects, ms. */
const LOOK_LIMIT_MS = 5 * 60_000

/**
 * Estimates the bytes that projects have on the disks of all shards, from their share of the rows of each partition.
 * @param projectIds null: all that have any
 */
export async function readStoredBytes(
  shards: Shards,
  projectIds: readonly string[] | null,
): Promise<Map<string, number>> {
  const fields = new QueryParameters()
  const wanted = projectIds === null ? '1' : `project_id IN ${fields.array([...projectIds])}`
  const found = await shards.each(({ clickhouse }) =>
    clickhouse.rows<{ project: string; bytes: string }>(
      TABLES.map(
        (table) => `
        SELECT project, toUInt64(sum(n * size / all_rows)) AS bytes
        FROM (
          SELECT project_id AS project, _partition_id AS id, count() AS n FROM ${table} WHERE ${wanted}
          GROUP BY project, id
        ) AS own
        INNER JOIN ${partitionSizes(table)} AS parts USING (id)
        GROUP BY project`,
      ).join(' UNION ALL '),
      fields.parameters,
      { max_threads: 1 },
      { limitMs: LOOK_LIMIT_MS },
    ),
  )
  const sums = new Map((projectIds ?? []).map((id) => [id, 0]))
  for (const { project, bytes } of found.flat()) sums.set(project, (sums.get(project) ?? 0) + Number(bytes))
  return sums
}

/** The number of event names that projects have had since a day (UTC), but not before. */
export async function countNewEventNames(
  shards: Shards,
  projectIds: readonly string[],
  firstId: string,
): Promise<Map<string, number>> {
  const fields = new QueryParameters()
  const events = `${shards.table('events')} WHERE project_id IN ${fields.array([...projectIds])} AND toUInt128(event_id)`
  const rows = await shards.rows<{ project: string; count: string }>(
    `SELECT project_id AS project, uniqExact(event) AS count FROM ${events} >= toUInt128({first:UUID})
       AND (project_id, event) GLOBAL NOT IN
         (SELECT project_id, event FROM ${events} < toUInt128({first:UUID}) GROUP BY project_id, event)
     GROUP BY project`,
    { ...fields.parameters, first: firstId },
    { max_threads: 1 },
    { limitMs: LOOK_LIMIT_MS },
  )
  const counts = new Map(rows.map(({ project, count }) => [project, Number(count)]))
  return new Map(projectIds.map((id) => [id, counts.get(id) ?? 0]))
}

/** The greatest number of names that `readPropertyNames` returns. */
export const MAX_PROPERTY_NAMES = 10_000
/** How many events `readPropertyNames` reads at most, the newest ones. */
const READ_EVENTS = 100_000
/** Time limit for reading the names of one project, ms. */
const NAMES_LIMIT_MS = 10_000

/**
 * The names of properties, at the top level, of the newest events that a project sent in a period.
 * @param from epoch ms
 * @param to epoch ms, exclusive
 */
export async function readPropertyNames(
  shards: Shards,
  projectId: string,
  { from, to }: { from: number; to: number },
  signal: AbortSignal,
): Promise<string[]> {
  const at = (ms: number) => formatEventId({ position: BigInt(ms) << 16n, index: 0, journalId: 0 })
  const [row] = await shards.rows<{ names: string[] }>(
    `SELECT groupUniqArrayArray(${MAX_PROPERTY_NAMES})(JSONExtractKeys(properties)) AS names
     FROM (
       SELECT properties FROM ${shards.table('events')}
       WHERE project_id = {project:String}
         AND toUInt128(event_id) >= toUInt128({from:UUID}) AND toUInt128(event_id) < toUInt128({to:UUID})
       ORDER BY project_id DESC, toUInt128(event_id) DESC LIMIT ${READ_EVENTS}
     )`,
    { project: projectId, from: at(from), to: at(to) },
    { max_threads: 1 },
    { limitMs: NAMES_LIMIT_MS, signal },
  )
  return row?.names ?? []
}
