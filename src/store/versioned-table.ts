import type { Readable } from 'node:stream'
import { type ClickHouseSettings, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { Position } from '../model/position.js'
import { formatProperties, type Properties, parseProperties } from '../model/properties.js'
import type { StateKind } from '../model/state-key.js'
import { allVersions, newestRows, VERSIONED_TABLES } from './newest-rows.js'
import { stateKeyEndSql } from './state-shard.js'

/** A stored value. */
export interface StoredValue<Value> {
  version: Position
  /** size of its properties */
  bytes: number
  /** null for a value that was not read because it is too large */
  value: Value | null
}

/**
 * A table whose row with the greatest version has the current value. A version is a journal position, so inserting a
 * row again changes nothing.
 */
export interface VersionedTable<Value> {
  kind: StateKind
  /**
   * The row of a value as JSON, without the version, which the journal assigns.
   * @param value null for a deleted one
   */
  row(projectId: string, name: string, value: Value | null): string
  /** stores rows, see `versionedRows` */
  insertQuery: string
  /** The stored values by name, without unknown names; null for a value with more than `maxBytes` of properties. */
  read(shards: Shards, projectId: string, names: string[], maxBytes: number): Promise<Map<string, StoredValue<Value>>>
  /** The number of rows of all projects, including deleted ones and versions that ClickHouse has not merged yet. */
  count(shards: Shards): Promise<number>
  /**
   * The last KEY_END_BYTES of the state keys of rows whose version is greater than `after`, in no particular order, and
   * possibly repeated.
   */
  stateKeys(shards: Shards, after: Position, signal: AbortSignal): Promise<Readable>
}

/** The last bytes of a state key identify it. The first bytes determine its lane, so they are similar within a lane. */
export const KEY_END_BYTES = 16

/** The last KEY_END_BYTES of a state key. @param stateKey hexadecimal */
export function toKeyEnd(stateKey: string): Buffer {
  return Buffer.from(stateKey.slice(-2 * KEY_END_BYTES), 'hex')
}

/**
 * Reads the key before the other columns, in one thread, which takes half the time for 32 of 100 000 profiles (chdb
 * 26.7, 2 cores).
 */
export const BY_KEY: ClickHouseSettings = { max_threads: 1, optimize_move_to_prewhere_if_final: 1 }
/** One thread, because nobody waits for the read. */
const IN_BACKGROUND: ClickHouseSettings = { max_threads: 1 }

/** How a value and its properties map to the columns of its table. */
export interface TableMapping<Value, Row> {
  kind: StateKind
  /** column → type */
  columns: { [Column in keyof Row]: string }
  /** @param value null for a deleted one */
  toColumns(value: Value | null): object
  /** @param row from ClickHouse, with 64-bit integers as strings */
  toValue(row: Row, properties: Properties): Value
}

export function createVersionedTable<Value extends { properties: Properties }, Row>({
  kind,
  columns,
  toColumns,
  toValue,
}: TableMapping<Value, Row>): VersionedTable<Value> {
  const nameColumn = VERSIONED_TABLES[kind].key
  const selected = [`${nameColumn} AS name`, ...Object.keys(columns), 'version'].join(', ')
  return {
    kind,
    ...createStoredKeys(kind),

    insertQuery: buildInsert(kind, {
      ...{ project_id: 'String', [nameColumn]: 'String', properties: 'String' },
      ...columns,
      is_deleted: 'UInt8',
    }),

    row: (projectId, name, value) =>
      JSON.stringify({
        project_id: projectId,
        [nameColumn]: name,
        properties: value ? formatProperties(value.properties) : '',
        ...toColumns(value),
        is_deleted: value ? 0 : 1,
      }),

    async read(shards, projectId, names, maxBytes) {
      const fields = new QueryParameters()
      const keys = `project_id = ${fields.text(projectId)} AND ${nameColumn} IN ${fields.array(names)}`
      const rows = await shards.rows<Row & { name: string; properties: string; bytes: string; version: string }>(
        `SELECT ${selected}, length(t.properties) AS bytes, if(bytes > ${maxBytes}, '', t.properties) AS properties
         FROM ${newestRows(shards, kind, { alias: 't', keys })}
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

/** The methods of a versioned table that list its states. */
export function createStoredKeys(kind: StateKind): Pick<VersionedTable<never>, 'count' | 'stateKeys'> {
  return {
    async count(shards) {
      const [row] = await shards.rows<{ count: string }>(`SELECT count() AS count FROM ${allVersions(shards, kind)}`)
      return Number(row?.count)
    },

    stateKeys: (shards, after, signal) =>
      shards.bytes(
        `SELECT toFixedString(${stateKeyEndSql(kind, KEY_END_BYTES)}, ${KEY_END_BYTES})
         FROM ${allVersions(shards, kind)} WHERE version > {after:UInt64} FORMAT RowBinary`,
        { after },
        IN_BACKGROUND,
        { signal },
      ),
  }
}

/** Up to `limit` sorted names of a project's rows after `after`; '' starts at the first. */
export async function listProjectNames(
  shards: Shards,
  kind: StateKind,
  { projectId, after, limit }: { projectId: string; after: string; limit: number },
): Promise<string[]> {
  const fields = new QueryParameters()
  const name = VERSIONED_TABLES[kind].key
  const keys = `project_id = ${fields.text(projectId)} AND ${name} > ${fields.text(after)}`
  const rows = await shards.rows<{ name: string }>(
    `SELECT ${name} AS name FROM ${newestRows(shards, kind, { keys, columns: [] })}
     WHERE ${keys} ORDER BY project_id, ${name} LIMIT ${fields.count(limit)}`,
    fields.parameters,
  )
  return rows.map((row) => row.name)
}

/** An INSERT whose lines have a version and the rows with that version. */
export function buildInsert(table: string, columns: Record<string, string>): string {
  const names = Object.keys(columns)
  const types = Object.entries(columns).map(([name, type]) => `${name} ${type}`)
  return `
    INSERT INTO ${table} (${names.join(', ')}, version)
    SELECT ${names.map((name) => `r.${name}`).join(', ')}, version
    FROM input('version UInt64, rows Array(Tuple(${types.join(', ')}))')
    ARRAY JOIN rows AS r
    FORMAT JSONEachRow`
}
