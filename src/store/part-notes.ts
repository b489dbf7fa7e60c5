import type { ClickHouse } from '../clickhouse/client.js'
import { insertRows, nextVersion } from './insert.js'
import type { Part } from './parts.js'

/** A part with its rows by project, limited to the projects with the most rows. */
export interface KnownPart extends Part {
  projects: Record<string, number>
}

/** Rows that the store has lost. */
export interface LostPart {
  table: string
  /** the name of the part, or of the folder that ClickHouse moved it to when it detached it */
  part: string
  /** for events, the month of acceptance, such as 202611; '' if unknown */
  partition: string
  /** `detached`: ClickHouse has detached it; `missing`: it is not on the disk */
  state: 'detached' | 'missing'
  /** ClickHouse's reason for detaching the part */
  reason: string
  /** includes deleted rows; null if the part was never recorded */
  rows: number | null
  projects: Record<string, number>
  /** whether the part was restored, or an operator has accepted the loss */
  isSettled: boolean
}

const AS_OBJECTS = { output_format_json_named_tuples_as_objects: 1 } as const

/** The parts that any process has recorded, and when that was last done, epoch ms by the server's clock. */
export async function readKnownParts(clickhouse: ClickHouse): Promise<{ known: KnownPart[]; notedAt: number }> {
  const rows = await clickhouse.rows<{
    table: string
    partition: string
    version: string
    parts: { name: string; first: string; last: string; rows: string; projects: Record<string, string> }[]
  }>(
    `SELECT table_name AS table, partition_id AS partition, version, parts FROM known_parts FINAL
     WHERE (table_name, table_uuid) IN (${selectTableIds(clickhouse)})`,
    {},
    AS_OBJECTS,
  )
  const known = rows.flatMap(({ table, partition, parts }) =>
    parts.map(({ name, first, last, rows, projects }) => ({
      ...{ table, partition, name, first: Number(first), last: Number(last), rows: Number(rows) },
      projects: toNumbers(projects),
    })),
  )
  return { known, notedAt: rows.reduce((latest, { version }) => Math.max(latest, Number(version)), 0) }
}

/** SELECT of the names and ids of our tables. Replicas have different ids for the same table. */
function selectTableIds({ hasReplicas }: ClickHouse): string {
  const id = hasReplicas ? "toUUID('00000000-0000-0000-0000-000000000000')" : 'uuid'
  return `SELECT name, ${id} AS id FROM system.tables WHERE database = currentDatabase()`
}

function toNumbers(texts: Record<string, string>): Record<string, number> {
  return Object.fromEntries(Object.entries(texts).map(([name, count]) => [name, Number(count)]))
}

/** A partition with all of its parts. */
export interface PartitionNote {
  table: string
  partition: string
  parts: readonly KnownPart[]
}

/** If the latest version is more than this ahead of the server's clock, ms, the clock was set back. */
const CLOCK_MS = 60_000

/**
 * @param at when the parts were listed, ms by the server's clock; the latest list of any process replaces the others
 */
export async function noteKnownParts(
  clickhouse: ClickHouse,
  notes: readonly PartitionNote[],
  at: number,
): Promise<void> {
  if (notes.length === 0) return
  const rows = await clickhouse.rows<{ name: string; id: string }>(selectTableIds(clickhouse))
  const ids = new Map(rows.map(({ name, id }) => [name, id]))
  const next = await nextVersion(clickhouse, 'known_parts', at)
  const version = next > at + CLOCK_MS ? next : at
  const noted = notes.map(({ table, partition, parts }) => ({
    ...{ table_name: table, table_uuid: ids.get(table), partition_id: partition, version },
    parts: parts.map(({ name, first, last, rows, projects }) => ({ name, first, last, rows, projects })),
  }))
  await insertRows(clickhouse, 'known_parts', noted)
}

/** All parts that were ever reported as lost. */
export async function readLostParts(clickhouse: ClickHouse): Promise<LostPart[]> {
  const rows = await clickhouse.rows<
    Omit<LostPart, 'rows' | 'projects' | 'isSettled'> & {
      rows: string | null
      projects: Record<string, string>
      settled: number
    }
  >(
    `SELECT table_name AS table, part, partition_id AS partition, state, reason, rows, projects, is_settled AS settled
     FROM lost_parts FINAL ORDER BY table, part`,
  )
  return rows.map(({ rows, projects, settled, ...lost }) => ({
    ...lost,
    rows: rows === null ? null : Number(rows),
    projects: toNumbers(projects),
    isSettled: settled === 1,
  }))
}

/** Replaces the records of these parts. @param at by the server's clock, ms */
export async function noteLostParts(clickhouse: ClickHouse, lost: readonly LostPart[], at: number): Promise<void> {
  if (lost.length === 0) return
  const version = await nextVersion(clickhouse, 'lost_parts', at)
  const rows = lost.map(({ table, partition, isSettled, ...rest }) => {
    return { table_name: table, partition_id: partition, ...rest, is_settled: isSettled ? 1 : 0, version }
  })
  await insertRows(clickhouse, 'lost_parts', rows)
}
