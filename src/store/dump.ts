import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { ClickHouseSettings } from '@clickhouse/client'
import type { ClickHouse } from '../clickhouse/client.js'
import type { Scalars } from '../clickhouse/parameters.js'
import { ONE_PIECE } from './insert.js'

/** How a table is taken out in chunks: by project, and within one by a key that no row changes. */
export interface DumpTable {
  name: string
  /** whether only the newest version of a row counts */
  isVersioned: boolean
  /** the expression that rows are walked by, its type, and an expression that tells the bytes of a row */
  key: { expression: string; type: 'UInt64' | 'UInt128' | 'hex'; bytes: string } | null
}

/**
 * All tables that hold data, in the order in which they are put in again: keys last, so that nothing can be accepted before.
 * `journals` is merged by `mergeJournals`.
 */
export const DUMP_TABLES: readonly DumpTable[] = [
  {
    name: 'events',
    isVersioned: false,
    key: { expression: 'toUInt128(event_id)', type: 'UInt128', bytes: 'length(properties)' },
  },
  {
    name: 'dead_letters',
    isVersioned: false,
    key: { expression: 'position', type: 'UInt64', bytes: 'length(body)' },
  },
  { name: 'dead_letter_replays', isVersioned: true, key: null },
  {
    name: 'profiles',
    isVersioned: true,
    key: { expression: 'distinct_id', type: 'hex', bytes: 'length(properties)' },
  },
  {
    name: 'sessions',
    isVersioned: true,
    key: { expression: 'session_id', type: 'hex', bytes: 'length(properties)' },
  },
  { name: 'api_keys', isVersioned: true, key: null },
]
/** What was deleted is not taken along, so what `deletions` names need not leave the other store's disk. */
const OTHER_TABLES = ['journals', 'schema_migrations', 'deletions']

/** A run of rows: all of a project with a key after `after`, up to `upTo`; null is no bound. */
export interface Range {
  project: string | null
  after: string | null
  upTo: string | null
}

/** What tells whether rows are the same: how many there are, and the sum of a hash of each, modulo 2^64. */
export interface Digest {
  rows: number
  hash: string
}

export interface JournalRow {
  id: number
  /** epoch milliseconds */
  since: string
}

/** A scan of a whole table takes long: a connection on which a header comes now and then is not taken for dead. */
const SCAN_LIMIT_MS = 60 * 60 * 1000
const SCAN: ClickHouseSettings = {
  send_progress_in_http_headers: 1,
  http_headers_progress_interval_ms: '60000',
}

/** What names this very database, whatever its address is; one that is dropped and made again has another. */
export async function storeId(clickhouse: ClickHouse): Promise<string> {
  const [row] = await clickhouse.rows<{ id: string }>(
    'SELECT toString(uuid) AS id FROM system.databases WHERE name = currentDatabase()',
  )
  return row?.id ?? ''
}

export async function schemaVersion(clickhouse: ClickHouse): Promise<number> {
  const [row] = await clickhouse.rows<{ version: number }>('SELECT max(number) AS version FROM schema_migrations')
  return row?.version ?? 0
}

/** The tables of the store that this version knows no way to take out. */
export async function unknownTables(clickhouse: ClickHouse): Promise<string[]> {
  const rows = await clickhouse.rows<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name",
  )
  const known = new Set([...OTHER_TABLES, ...DUMP_TABLES.map(({ name }) => name)])
  return rows.map(({ name }) => name).filter((name) => !known.has(name))
}

/** The names of the columns that a table stores, in their order, and the hash of a row. */
async function columnsOf(clickhouse: ClickHouse, table: string): Promise<{ names: string[]; hash: string }> {
  const rows = await clickhouse.rows<{ name: string; type: string }>(
    `SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}
     AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') ORDER BY position`,
    { table },
  )
  // The hash of a tuple with a null in it would be null.
  const hashed = rows.map(({ name, type }) => (type.includes('Nullable') ? `ifNull(toString(${name}), '\\0')` : name))
  return { names: rows.map(({ name }) => name), hash: `cityHash64(${hashed.join(', ')})` }
}

/** Rows of a table, about; deleted ones may be counted as well. */
export async function roughCount(clickhouse: ClickHouse, table: string): Promise<number> {
  const [row] = await clickhouse.rows<{ rows: string | null }>(
    'SELECT total_rows AS rows FROM system.tables WHERE database = currentDatabase() AND name = {table:String}',
    { table },
  )
  return Number(row?.rows ?? 0)
}

export async function projectsOf(clickhouse: ClickHouse, { name }: DumpTable): Promise<string[]> {
  const rows = await scan<{ project_id: string }>(
    clickhouse,
    `SELECT DISTINCT project_id FROM ${name} ORDER BY project_id`,
  )
  return rows.map(({ project_id }) => project_id)
}

/** A chunk is one block of ClickHouse's memory, and one part of a table. */
const MAX_CHUNK_BYTES = 64 * 1024 * 1024

/** The last key of the next run of up to `limit` rows and about 64 MiB; null for a table in one piece, undefined where no rows are left. */
export async function nextKey(
  clickhouse: ClickHouse,
  table: DumpTable,
  { project, after }: Omit<Range, 'upTo'>,
  limit: number,
): Promise<string | null | undefined> {
  const { key } = table
  const range = { project, after, upTo: null }
  if (!key) return (await digestOf(clickhouse, table, range)).rows > 0 ? null : undefined
  const last = key.type === 'hex' ? 'hex(max(k))' : 'toString(max(k))'
  const [row] = await scan<{ count: string; upTo: string }>(
    clickhouse,
    `SELECT count() AS count, ${last} AS upTo FROM (
       SELECT k, sum(b) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - b AS before
       FROM (SELECT ${key.expression} AS k, ${key.bytes} AS b FROM ${source(table)} WHERE ${condition(table, range)}
             ORDER BY k LIMIT ${limit}))
     WHERE before < ${MAX_CHUNK_BYTES}`,
    parameters(range),
  )
  return row && Number(row.count) > 0 ? row.upTo : undefined
}

/** What a run holds, in ClickHouse's format Native, compressed and with checksums as its own client sends it. */
export async function readChunk(
  clickhouse: ClickHouse,
  table: DumpTable,
  range: Range,
  signal: AbortSignal,
): Promise<Readable> {
  const { names } = await columnsOf(clickhouse, table.name)
  const order = table.key ? `ORDER BY ${table.key.expression}` : ''
  return await clickhouse.bytes(
    `SELECT ${names.join(', ')} FROM ${source(table)} WHERE ${condition(table, range)} ${order} FORMAT Native`,
    parameters(range),
    { ...SCAN, compress: 1 } as ClickHouseSettings,
    { signal, limitMs: SCAN_LIMIT_MS },
  )
}

/** Stores what `readChunk` gave. Blocks that are there already under this token are not stored again. */
export async function insertChunk(
  clickhouse: ClickHouse,
  { name }: DumpTable,
  values: Readable,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  const { names } = await columnsOf(clickhouse, name)
  const settings = {
    decompress: 1,
    insert_deduplication_token: token,
    ...ONE_PIECE,
    max_partitions_per_insert_block: '0',
  } as ClickHouseSettings
  await clickhouse.insert(`INSERT INTO ${name} (${names.join(', ')}) FORMAT Native`, values, settings, signal)
}

/** What is there in a range. */
export async function digestOf(clickhouse: ClickHouse, table: DumpTable, range: Range): Promise<Digest> {
  const { hash } = await columnsOf(clickhouse, table.name)
  const [row] = await scan<{ count: string; hash: string }>(
    clickhouse,
    `SELECT count() AS count, toString(sum(${hash})) AS hash FROM ${source(table)} WHERE ${condition(table, range)}`,
    parameters(range),
  )
  return { rows: Number(row?.count ?? 0), hash: row?.hash ?? '0' }
}

export const EVERYTHING: Range = { project: null, after: null, upTo: null }

export function addDigests(a: Digest, b: Digest): Digest {
  return { rows: a.rows + b.rows, hash: String(BigInt.asUintN(64, BigInt(a.hash) + BigInt(b.hash))) }
}

/** The journals that wrote to this store, the latest last. */
export async function readJournals(clickhouse: ClickHouse): Promise<JournalRow[]> {
  return await clickhouse.rows<JournalRow>('SELECT id, since FROM journals ORDER BY since, id DESC')
}

/**
 * Adds another store's journals, and makes its latest the latest here: whichever journal is used next has to go behind
 * what that one gave out. It can be repeated.
 */
export async function mergeJournals(
  clickhouse: ClickHouse,
  journals: readonly JournalRow[],
  now: number,
): Promise<void> {
  for (const { id, since } of journals) {
    await clickhouse.command(
      `INSERT INTO journals SELECT {id:UInt32}, {since:Int64}
       WHERE (SELECT count() FROM journals WHERE id = {id:UInt32} AND since = {since:Int64}) = 0`,
      { id, since },
    )
  }
  const latest = journals.at(-1)
  const here = (await readJournals(clickhouse)).at(-1)
  if (!latest || here?.id === latest.id) return
  const since = Math.max(now, Number(here?.since ?? 0) + 1)
  await clickhouse.command('INSERT INTO journals SELECT {id:UInt32}, {since:Int64}', { id: latest.id, since })
}

function source({ name, isVersioned }: DumpTable): string {
  return isVersioned ? `${name} FINAL` : name
}

/** Spelled out, as ClickHouse does not use the primary key for comparisons of tuples. */
function condition({ key }: DumpTable, { project, after, upTo }: Range): string {
  const value = (name: string) => (key?.type === 'hex' ? `unhex({${name}:String})` : `{${name}:${key?.type}}`)
  const parts = ['1']
  if (project !== null) parts.push('project_id = {project:String}')
  if (after !== null) parts.push(`${key?.expression} > ${value('after')}`)
  if (upTo !== null) parts.push(`${key?.expression} <= ${value('upTo')}`)
  return parts.join(' AND ')
}

function parameters({ project, after, upTo }: Range): Scalars {
  return {
    ...(project !== null && { project }),
    ...(after !== null && { after }),
    ...(upTo !== null && { upTo }),
  }
}

/** As ClickHouse.rows, for queries that may take long. */
async function scan<Row>(clickhouse: ClickHouse, query: string, values: Scalars = {}): Promise<Row[]> {
  const settings = { ...SCAN, output_format_json_quote_64bit_integers: 1 } as const
  const lines = await text(
    await clickhouse.bytes(`${query} FORMAT JSONEachRow`, values, settings, { limitMs: SCAN_LIMIT_MS }),
  )
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row)
}
