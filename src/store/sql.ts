import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type ClickHouse, SIGNS_OF_LIFE } from '../clickhouse/client.js'
import { isStoreError, StoreError, StoreUnreachableError } from '../clickhouse/errors.js'
import { QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'

export interface SqlOptions {
  /** one of ClickHouse's output formats; a FORMAT in the query takes precedence */
  format: string
  /** time limit of the query in ClickHouse, seconds */
  limitSeconds: number
  signal: AbortSignal
  /** whether the query may read files with `file()` */
  readsFiles?: boolean
}

/** The query would change something, or read something other than the store; the message says what is allowed. */
class SqlRefusedError extends Error {
  override readonly name = 'SqlRefusedError'
}

/** The first line of EXPLAIN AST for statements that only read. */
const READING = /^(Select|Show|Describe|Exists|Explain)/
/** A table that the query names, with or without its database. */
const TABLE = /^ *TableIdentifier (?:\S+\.)?(\S+)/gm
/** This function reads any file that the engine's user may read, and `readonly` does not stop it. */
const FILE_FUNCTION = /^ *Function file\b/m
const EXPLAIN = 'EXPLAIN AST '

/**
 * Memory of a query, so that it does not starve the INSERTs of the service; GROUP BY and ORDER BY spill to disk beyond
 * half of it.
 */
const MAX_MEMORY_BYTES = 4 * 1024 * 1024 * 1024
/** The client gives up this much after ClickHouse's own time limit, ms. */
const GRACE_MS = 10_000

const READ_ONLY = {
  // Unlike 2, this forbids SETTINGS in the query, and table functions that read files and other servers.
  readonly: '1',
  // Profiles, sessions and keys as they are now, without a FINAL in the query.
  final: 1,
  max_memory_usage: String(MAX_MEMORY_BYTES),
  max_bytes_before_external_group_by: String(MAX_MEMORY_BYTES / 2),
  max_bytes_before_external_sort: String(MAX_MEMORY_BYTES / 2),
  ...SIGNS_OF_LIFE,
} as const

/** The result of an operator's query. */
export interface SqlResult {
  /** in ClickHouse's format; complete if, and only if, the stream ends */
  rows: Readable
  /** tables in the query that are read from the first shard only; with `_all` appended, they cover all shards */
  ofFirstShard: string[]
}

/**
 * Runs an operator's query on the first shard. It cannot change anything.
 *
 * Not promised: that it reads only the tables of the store. It can read whatever the ClickHouse user can read.
 *
 * @throws SqlRefusedError if the query would change something
 * @throws Error with ClickHouse's message, StoreUnreachableError; the stream may break with a StoreError, for which see
 *   `describeSqlError`
 */
export async function readSql(
  shards: Shards,
  query: string,
  { format, limitSeconds, signal, readsFiles = false }: SqlOptions,
): Promise<SqlResult> {
  const { first } = shards
  const tree = await checkReads(first, query, { signal, readsFiles })
  const ofFirstShard = shards.areSeveral ? await findTablesElsewhere(first, tree) : []
  // 1 forbids file(), too.
  const readonly = readsFiles ? '2' : READ_ONLY.readonly
  const settings = { ...READ_ONLY, readonly, max_execution_time: limitSeconds, default_format: format }
  const rows = await first.bytes(query, {}, settings, { signal, limitMs: limitSeconds * 1000 + GRACE_MS })
  return { rows, ofFirstShard }
}

/**
 * Checks the statement with ClickHouse's own parser, because `readonly` alone would allow KILL QUERY and BACKUP.
 * @returns the syntax tree of the statement as text
 */
async function checkReads(
  clickhouse: ClickHouse,
  query: string,
  { signal, readsFiles }: { signal: AbortSignal; readsFiles: boolean },
): Promise<string> {
  const settings = { readonly: '1', default_format: 'TabSeparatedRaw' } as const
  const tree = await clickhouse.bytes(`${EXPLAIN}${query}`, {}, settings, { signal }).catch((error: unknown) => {
    throw isStoreError(error, 'SYNTAX_ERROR') ? withoutPrefix(error) : error
  })
  const lines = await text(tree)
  if (!READING.test(lines)) {
    throw new SqlRefusedError('This only reads: SELECT, WITH, SHOW, DESCRIBE, EXISTS and EXPLAIN.')
  }
  if (!readsFiles && FILE_FUNCTION.test(lines)) {
    throw new SqlRefusedError('A query of the store cannot read files. To query files, name their folder with --files.')
  }
  return lines
}

/** The tables in a query that have rows on other shards, too. */
async function findTablesElsewhere(clickhouse: ClickHouse, tree: string): Promise<string[]> {
  const named = [...new Set(Array.from(tree.matchAll(TABLE), ([, name = '']) => name))]
  const fields = new QueryParameters()
  const rows = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM system.tables
     WHERE database = currentDatabase() AND name IN ${fields.array(named.map((name) => `${name}_all`))}`,
    fields.parameters,
  )
  const found = new Set(rows.map(({ name }) => name))
  return named.filter((name) => found.has(`${name}_all`))
}

/** Corrects the position in an error, which includes the prefix that was added to the query. */
function withoutPrefix(error: StoreError): Error {
  const words = error.words.replace(/position (\d+)/, (_, at) => `position ${Number(at) - EXPLAIN.length}`)
  return new StoreError(error.code, words)
}

/** Explains the failure of a query to its author in one sentence. */
export function describeSqlError(error: unknown, limitSeconds: number): string {
  const message = error instanceof StoreError ? error.words : error instanceof Error ? error.message : String(error)
  if (error instanceof StoreUnreachableError) return message
  if (message === 'aborted') return 'The result broke off: the query failed, or ClickHouse exited.'
  if (isStoreError(error, 'TIMEOUT_EXCEEDED')) {
    return `The query was aborted after ${limitSeconds} s. Narrow it, or allow more with --timeout.`
  }
  if (isStoreError(error, 'MEMORY_LIMIT_EXCEEDED')) {
    return `The query needs too much memory: ${message} Narrow it, or read fewer columns.`
  }
  if (isStoreError(error, 'READONLY')) {
    return `This only reads, without SETTINGS in the query: ${message}`
  }
  if (isStoreError(error, 'ACCESS_DENIED')) return `ClickHouse does not allow this: ${message}`
  return message
}
