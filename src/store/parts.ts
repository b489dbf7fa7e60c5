import type { ClickHouse } from '../clickhouse/client.js'
import { orIfDenied } from '../clickhouse/errors.js'
import { QueryParameters } from '../clickhouse/parameters.js'

/** Blocks of a partition, from `first` to `last`. An INSERT adds a block to each partition that its rows belong to. */
export interface Blocks {
  table: string
  partition: string
  first: number
  last: number
}

/** A part of a table, with the rows of its blocks. */
export interface Part extends Blocks {
  name: string
  /** includes deleted rows */
  rows: number
}

/** An active part. */
export interface ActivePart extends Part {
  /** whether it was created since the server started */
  isRecent: boolean
}

/** A part that ClickHouse has detached. */
export interface DetachedPart {
  table: string
  /** null if its name cannot be parsed */
  blocks: Blocks | null
  /** the name of its folder */
  name: string
  reason: string
}

/** The parts of a server. */
export interface PartList {
  active: ActivePart[]
  /** parts that were merged into others and not removed yet; all sources of a merge stay for seconds or minutes */
  outdated: ActivePart[]
  /** when the list was read, epoch ms by the server's clock, like `startedAt` */
  at: number
  startedAt: number
}

/**
 * Recorded tables with rows of projects. They keep parts whose rows are all deleted, or expired as in `audit`; rows of
 * `projects`, `project_usage`, `facts_left_out` and `ledger_bases` are never deleted. Without a part of `projects`, data
 * would be kept forever and nothing limited; without one of `project_usage`, quotas would seem less used than they are;
 * without one of `facts_left_out`, projects that an operator has left out would be copied.
 */
const PROJECT_TABLES = [
  ...['events', 'profiles', 'sessions', 'aliases', 'dead_letters', 'saved', 'api_keys'],
  ...['projects', 'project_usage', 'facts_left_out', 'ledger_bases', 'audit'],
]
/** Other recorded tables, whose rows are never deleted. */
const OTHER_TABLES = ['dead_letter_replays', 'journals', 'layouts'] as const

const KNOWN_TABLES = [...PROJECT_TABLES, ...OTHER_TABLES].map((name) => `'${name}'`).join(', ')
const OF_TABLES = `database = currentDatabase() AND table IN (${KNOWN_TABLES})`
/**
 * Tables that say which events facts have. If ClickHouse loses a part of such a table, the service rebuilds all facts
 * from the events.
 */
export const FACT_NOTES: readonly string[] = ['facts_state', 'facts_progress', 'event_changes']
/** Tables that are rebuilt from events. */
export const FACT_TABLES: readonly string[] = [...FACT_NOTES, 'event_facts', 'session_facts']
/** Tables whose losses need no operator. */
const DERIVED_TABLES = [...FACT_TABLES, 'facts_columns_used']
/** Patches contain edits and deletes of events, in separate partitions until a merge applies them. */
const PATCH = 'patch-'
/** ClickHouse's reasons for detaching parts whose rows are also in other parts or were never acknowledged. */
const HARMLESS = [
  ...['attaching', 'deleting', 'tmp-fetch', 'ignored', 'clone', 'cloned', 'noquorum', 'covered-by-broken'],
  ...['merge-not-byte-identical', 'mutate-not-byte-identical'],
]
/** Maximum number of projects recorded per part. */
const MAX_PROJECTS = 50
/** Parts in one query that counts their rows by project. */
const COUNTED_TOGETHER = 500
/** Time limit for reading the rows of parts, ms. */
const LIMIT_MS = 60_000
const AS_STORED = { max_threads: 1, priority: '10', apply_deleted_mask: 0, apply_patch_parts: 0 } as const

/** Operand of FROM: the partitions of a table, by `id`, with their bytes on the disk as `size`, and `all_rows`. */
export function partitionSizes(table: string): string {
  return `(
    SELECT partition_id AS id, sum(bytes_on_disk) AS size, sum(rows) AS all_rows FROM system.parts
    WHERE database = currentDatabase() AND table = '${table}' AND active GROUP BY id)`
}

/** Whether a part has edits and deletes of events. */
export function isPatch({ partition }: Pick<Blocks, 'partition'>): boolean {
  return partition.startsWith(PATCH)
}

/** The partition that a patch applies to. */
export function patchedPartition({ partition }: Pick<Blocks, 'partition'>): string {
  return partition.split('-').at(-1) ?? ''
}

/** The parts of the recorded tables. */
export async function listParts(clickhouse: ClickHouse): Promise<PartList> {
  const [server] = await clickhouse.rows<{ at: string; started: string }>(
    'SELECT toUnixTimestamp64Milli(now64(3)) AS at, 1000 * toInt64(toUnixTimestamp(now()) - uptime()) AS started',
  )
  const startedAt = Number(server?.started ?? 0)
  const rows = await clickhouse.rows<Record<string, string> & { active: number }>(
    `SELECT table, partition_id AS partition, name, min_block_number AS first, max_block_number AS last, rows, active,
       1000 * toInt64(toUnixTimestamp(modification_time)) AS made
     FROM system.parts WHERE ${OF_TABLES}`,
  )
  const parts = (isActive: 0 | 1) =>
    rows
      .filter(({ active }) => active === isActive)
      .map(({ table = '', partition = '', name = '', first, last, rows, made }) => {
        // The time of the start has a precision of one second.
        const isRecent = Number(made) >= startedAt - 1000
        return { table, partition, name, first: Number(first), last: Number(last), rows: Number(rows), isRecent }
      })
  return { active: parts(1), outdated: parts(0), at: Number(server?.at ?? 0), startedAt }
}

/**
 * The parts of our tables that ClickHouse has detached as broken or unexpected, or for an operator. Empty if the user
 * lacks the right to see them; missing parts are noticed anyway.
 */
export async function listDetachedParts(clickhouse: ClickHouse): Promise<DetachedPart[]> {
  const fields = new QueryParameters()
  const detached = clickhouse.rows<Record<'table' | 'name' | 'reason', string> & Record<string, string | null>>(
    `SELECT table, partition_id AS partition, name, min_block_number AS first, max_block_number AS last,
       ifNull(reason, '') AS reason
     FROM system.detached_parts
     WHERE database = currentDatabase() AND ifNull(reason, '') NOT IN ${fields.array(HARMLESS)}
       AND table NOT IN ${fields.array(DERIVED_TABLES)}
     ORDER BY table, name`,
    fields.parameters,
  )
  return (await orIfDenied(detached, [])).map(({ table, partition, name, first, last, reason }) => {
    const isNamed = partition != null && first != null && last != null
    const blocks = isNamed ? { table, partition, first: Number(first), last: Number(last) } : null
    return { table, blocks, name, reason }
  })
}

/**
 * Whether ClickHouse, or an operator, has detached a part of these tables. False if the user lacks the right to see
 * that.
 */
export async function hasDetachedParts(clickhouse: ClickHouse, tables: readonly string[]): Promise<boolean> {
  const fields = new QueryParameters()
  const detached = `SELECT 1 FROM system.detached_parts
    WHERE database = currentDatabase() AND table IN ${fields.array([...tables])}
      AND ifNull(reason, '') NOT IN ${fields.array(HARMLESS)} LIMIT 1`
  return (await orIfDenied(clickhouse.rows(detached, fields.parameters), [])).length > 0
}

/** The tables whose parts this replica still has to fetch or merge; none without replicas. */
export async function findLaggingTables(clickhouse: ClickHouse): Promise<Set<string>> {
  if (!clickhouse.hasReplicas) return new Set()
  const queued = clickhouse.rows<{ table: string }>(
    'SELECT DISTINCT table FROM system.replication_queue WHERE database = currentDatabase()',
  )
  return new Set((await orIfDenied(queued, [])).map(({ table }) => table))
}

/** Counts rows of parts by project, limited to the projects with the most rows. Patches have no projects. */
export async function countByProject(
  clickhouse: ClickHouse,
  parts: readonly Part[],
): Promise<Map<Part, Record<string, number>>> {
  const counts = new Map<Part, Record<string, number>>()
  for (const table of PROJECT_TABLES) {
    const all = parts.filter((part) => part.table === table && !isPatch(part))
    for (let start = 0; start < all.length; start += COUNTED_TOGETHER) {
      const some = new Map(all.slice(start, start + COUNTED_TOGETHER).map((part) => [part.name, part]))
      const fields = new QueryParameters()
      const rows = await clickhouse.rows<{ part: string; project: string; count: string }>(
        `SELECT _part AS part, project_id AS project, count() AS count FROM ${table}
         WHERE _part IN ${fields.array([...some.keys()])}
         GROUP BY part, project ORDER BY part, count DESC LIMIT ${MAX_PROJECTS} BY part`,
        fields.parameters,
        AS_STORED,
        { limitMs: LIMIT_MS },
      )
      for (const { part: name, project, count } of rows) {
        const part = some.get(name)
        if (part) counts.set(part, { ...counts.get(part), [project]: Number(count) })
      }
    }
  }
  return counts
}

/**
 * Whether a part has rows of these blocks.
 * @returns null if it is unknown, because only rows of `events` store their block
 */
export async function hasBlockRows(clickhouse: ClickHouse, part: Part, blocks: Blocks): Promise<boolean | null> {
  if (part.table !== 'events' || isPatch(part)) return null
  const rows = await clickhouse.rows(
    `SELECT 1 FROM events
     WHERE _part = {part:String} AND _block_number >= {first:UInt64} AND _block_number <= {last:UInt64} LIMIT 1`,
    { part: part.name, first: String(blocks.first), last: String(blocks.last) },
    AS_STORED,
    { limitMs: LIMIT_MS },
  )
  return rows.length > 0
}
