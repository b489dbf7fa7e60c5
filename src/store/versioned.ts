import type { Readable } from 'node:stream'
import type { ClickHouseSettings } from '@clickhouse/client'
import type { ClickHouse } from '../clickhouse/client.js'
import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Entry } from '../journal/journal.js'
import type { Position } from '../model/position.js'
import { formatProperties, type Properties, parseProperties } from '../model/properties.js'
import type { StateKind } from '../model/state-key.js'
import { insertEntries, versionedRows } from './insert.js'
import { stateKeySql } from './state-shard.js'

/** A stored value. */
export interface StoredValue<Value> {
  version: Position
  /** of its properties */
  bytes: number
  /** null for a value that was not read because it is too large */
  value: Value | null
}

/**
 * A table that keeps of each value the row with the greatest version. A version is a journal position, so inserting a
 * row again changes nothing.
 */
export interface VersionedTable<Value> {
  kind: StateKind
  /**
   * The row of a value as JSON, without the version, which the journal assigns.
   * @param value null for a deleted one
   */
  row(projectId: string, name: string, value: Value | null): string
  /** Stores rows. Idempotent. */
  insert(clickhouse: ClickHouse, entries: Entry[], signal: AbortSignal): Promise<void>
  /** The stored values by name, those with more than `maxBytes` of properties as null; unknown names are missing. */
  read(shards: Shards, projectId: string, names: string[], maxBytes: number): Promise<Map<string, StoredValue<Value>>>
  /** How many rows there are of all projects, every version of a value that is still there and deleted ones included. */
  count(shards: Shards): Promise<number>
  /**
   * The state keys of those rows whose version is greater than `after`, of each its last KEY_END_BYTES: in no order, and
   * some repeatedly.
   */
  stateKeys(shards: Shards, after: Position, signal: AbortSignal): Promise<Readable>
}

/** The first bytes of a state key decide on its lane, and so are alike within one. */
export const KEY_END_BYTES = 16
/**
 * The key is looked at before the other columns are read, and one thread does it: 32 of 100 000 profiles take half of the
 * time (chdb 26.7, 2 cores).
 */
export const BY_KEY: ClickHouseSettings = { max_threads: 1, optimize_move_to_prewhere_if_final: 1 }
/** It may take its time, and leaves the processor to others. A failure half-way breaks the stream. */
const IN_BACKGROUND: ClickHouseSettings = { max_threads: 1, wait_end_of_query: 0 }

/** The column that names a row within its project. */
export const NAME_COLUMN = {
  profiles: 'distinct_id',
  sessions: 'session_id',
  aliases: 'alias',
} satisfies Record<StateKind, string>

/** How a value and its properties are spread over the columns that only this table has. */
export interface TableLayout<Value, Row> {
  kind: StateKind
  /** column → type */
  columns: { [Column in keyof Row]: string }
  /** @param value null for a deleted one */
  toColumns(value: Value | null): object
  /** @param row as ClickHouse sends it, where 64-bit integers are texts */
  toValue(row: Row, properties: Properties): Value
}

export function versionedTable<Value extends { properties: Properties }, Row>({
  kind,
  columns,
  toColumns,
  toValue,
}: TableLayout<Value, Row>): VersionedTable<Value> {
  const nameColumn = NAME_COLUMN[kind]
  const insertQuery = insertOf(kind, {
    ...{ project_id: 'String', [nameColumn]: 'String', properties: 'String' },
    ...columns,
    is_deleted: 'UInt8',
  })
  const selected = [`${nameColumn} AS name`, ...Object.keys(columns), 'version'].join(', ')
  return {
    kind,
    ...storedKeysOf(kind),

    row: (projectId, name, value) =>
      JSON.stringify({
        project_id: projectId,
        [nameColumn]: name,
        properties: value ? formatProperties(value.properties) : '',
        ...toColumns(value),
        is_deleted: value ? 0 : 1,
      }),

    insert: (clickhouse, entries, signal) => insertEntries(clickhouse, insertQuery, entries, versionedRows, signal),

    async read(shards, projectId, names, maxBytes) {
      const fields = new QueryParameters()
      const keys = `project_id = ${fields.text(projectId)} AND ${nameColumn} IN ${fields.array(names)}`
      const rows = await shards.rows<Row & { name: string; properties: string; bytes: string; version: string }>(
        `SELECT ${selected}, length(t.properties) AS bytes, if(bytes > ${maxBytes}, '', t.properties) AS properties
         FROM ${shards.newest(kind, { alias: 't', keys })}
         WHERE ${keys}`,
        fields.parameters,
        BY_KEY,
      )
      return new Map(
        rows.map((row) => {
          const bytes = Number(row.bytes)
          const value = bytes > maxBytes ? null : toValue(row, parseProperties(row.properties))
          return [row.name, { version: BigInt(row.version), bytes, value }]
        }),
      )
    },
  }
}

/** How a versioned table tells which states it has. */
export function storedKeysOf(kind: StateKind): Pick<VersionedTable<never>, 'count' | 'stateKeys'> {
  return {
    async count(shards) {
      const [row] = await shards.rows<{ count: string }>(`SELECT count() AS count FROM ${shards.versionsOf(kind)}`)
      return Number(row?.count)
    },

    stateKeys: (shards, after, signal) =>
      shards.bytes(
        `SELECT toFixedString(right(${stateKeySql(kind)}, ${KEY_END_BYTES}), ${KEY_END_BYTES})
         FROM ${shards.versionsOf(kind)} WHERE version > {after:UInt64} FORMAT RowBinary`,
        { after },
        IN_BACKGROUND,
        { signal },
      ),
  }
}

/** The names of a project's rows, in order: up to `limit` of those after `after`, which is '' for all of them. */
export async function namesOfProject(
  shards: Shards,
  kind: StateKind,
  { projectId, after, limit }: { projectId: string; after: string; limit: number },
): Promise<string[]> {
  const fields = new QueryParameters()
  const name = NAME_COLUMN[kind]
  const keys = `project_id = ${fields.text(projectId)} AND ${name} > ${fields.text(after)}`
  const rows = await shards.rows<{ name: string }>(
    `SELECT ${name} AS name FROM ${shards.newest(kind, { keys, columns: [] })}
     WHERE ${keys} ORDER BY project_id, ${name} LIMIT ${fields.count(limit)}`,
    fields.parameters,
  )
  return rows.map((row) => row.name)
}

/** An INSERT whose lines are a version and the rows that have it. */
export function insertOf(table: string, columns: Record<string, string>): string {
  const names = Object.keys(columns)
  const types = Object.entries(columns).map(([name, type]) => `${name} ${type}`)
  return `
    INSERT INTO ${table} (${names.join(', ')}, version)
    SELECT ${names.map((name) => `r.${name}`).join(', ')}, version
    FROM input('version UInt64, rows Array(Tuple(${types.join(', ')}))')
    ARRAY JOIN rows AS r
    FORMAT JSONEachRow`
}
