import type { Shards } from '../clickhouse/shards.js'
import type { StateKind } from '../model/state-key.js'
import { CONTEXT_COLUMNS } from './context-sql.js'

/**
 * Tables whose row with the greatest version is current, with the key of a row within its project, and other columns.
 */
export const VERSIONED_TABLES = {
  profiles: {
    key: 'distinct_id',
    columns: ['properties', 'created_at', 'updated_at', 'is_identified', 'is_derived', 'times'],
  },
  sessions: {
    key: 'session_id',
    columns: [
      ...['distinct_id', 'state', 'properties', 'duration', 'started_at', 'updated_at', 'ended_at'],
      ...CONTEXT_COLUMNS,
    ],
  },
  aliases: {
    key: 'alias',
    columns: ['distinct_id', 'said', 'created_at', 'given_to', 'given', 'is_pending', 'is_leaving', 'step_at'],
  },
}

export interface NewestOptions {
  alias?: string
  /** a condition on `project_id` and the key only; without it, each of several shards reads all its rows */
  keys?: string
  /** the columns that are needed; default: all */
  columns?: readonly string[]
}

/** Operand of FROM: every version of the rows of all shards. */
export function allVersions(shards: Pick<Shards, 'areSeveral'>, name: StateKind): string {
  return shards.areSeveral ? `${name}_rows` : name
}

/**
 * Operand of FROM: the newest rows of all shards, without deleted ones. Versions are compared across shards, because
 * after shards were added, FINAL on each shard could return a row that was deleted on another.
 */
export function newestRows(
  shards: Pick<Shards, 'areSeveral'>,
  name: StateKind,
  { alias = '', keys = '1', columns = VERSIONED_TABLES[name].columns }: NewestOptions = {},
): string {
  const as = alias && ` AS ${alias}`
  if (!shards.areSeveral) return `${name}${as} FINAL`
  const { key } = VERSIONED_TABLES[name]
  // Use a tuple, because argMax of a column skips nulls.
  const row = [...columns, 'is_deleted'].map((column) => `${name}_rows.${column}`).join(', ')
  const taken = columns.map((column, i) => `newest_row.${i + 1} AS ${column}, `).join('')
  return `(
      SELECT project_id, ${key}, ${taken}version FROM (
        SELECT project_id, ${key}, argMax(tuple(${row}), ${name}_rows.version) AS newest_row, max(${name}_rows.version) AS version
        FROM ${name}_rows WHERE ${keys} GROUP BY project_id, ${key} SETTINGS final = 0
      ) WHERE newest_row.${columns.length + 1} = 0
    )${as}`
}
