import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type ClickHouse, SIGNS_OF_LIFE } from '../clickhouse/client.js'
import type { ClickHouseSettings, Parameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { StateKind } from '../model/state-key.js'
import { ONE_PIECE } from './insert.js'
import { allVersions, newestRows, VERSIONED_TABLES } from './newest-rows.js'
import { stateShardSql } from './state-shard.js'

/** How a table is exported in chunks: by project, and within a project by a key that never changes in a row. */
export type DumpTable = {
  /** whether only the newest version of a row is exported */
  isVersioned: boolean
  /** the columns to export, in this order; default: all */
  columns?: readonly string[] | undefined
  /** the key as SQL, its type, and the size of a row in bytes as SQL */
  key: { expression: string; type: 'UInt64' | 'UInt128' | 'hex'; bytes: string } | null
} & (
  | {
      name: string
      /**
       * which of several shards rows are imported to. `any`: each chunk to any shard, because events are found on all
       * of them. `first`: the first shard, because dead letters and their replays are few and must be together.
       * `once`: the first shard, because no other shard has the table.
       */
      place: 'any' | 'first' | 'once'
    }
  | {
      name: StateKind
      /** each row goes to the shard of its lane, where states are looked up */
      place: 'lane'
    }
)

/**
 * All tables with data, in the order of their import: keys last, so that nothing is accepted until everything is there.
 * `mergeJournals` imports `journals`. A chunk is a range of the rows of all shards, so the target store may have a
 * different number of shards.
 */
export const DUMP_TABLES: readonly DumpTable[] = [
  {
    name: 'events',
    place: 'any',
    isVersioned: false,
    key: { expression: 'toUInt128(event_id)', type: 'UInt128', bytes: 'length(properties)' },
  },
  {
    name: 'dead_letters',
    place: 'first',
    isVersioned: false,
    key: { expression: 'position', type: 'UInt64', bytes: 'length(body)' },
  },
  { name: 'dead_letter_replays', place: 'first', isVersioned: true, key: null },
  ofStates('profiles', 'properties'),
  ofStates('sessions', 'properties'),
  ofStates('aliases', 'distinct_id'),
  {
    name: 'saved',
    place: 'once',
    isVersioned: true,
    key: { expression: 'id', type: 'hex', bytes: 'length(content)' },
  },
  // Marked as versioned because its rows expire, so an export and a later count may differ.
  { name: 'audit', place: 'once', isVersioned: true, key: null },
  { name: 'projects', place: 'once', isVersioned: true, key: null },
  // For bills, and for the quotas of the month.
  { name: 'project_usage', place: 'once', isVersioned: true, key: null },
  // Every shard has all rows: an import copies them from the first shard.
  { name: 'facts_left_out', place: 'once', isVersioned: true, key: null },
  { name: 'api_keys', place: 'once', isVersioned: true, key: null },
]

/** @param text the column with most of a row's bytes */
function ofStates(name: StateKind, text: string): DumpTable {
  const key = { expression: VERSIONED_TABLES[name].key, type: 'hex' as const, bytes: `length(${text})` }
  return { name, place: 'lane', isVersioned: true, key }
}

/**
 * Tables that are not exported. The target needs no `deletions`, because deleted rows are not exported. Its count of
 * the use of keys starts from zero, and it builds facts from the events.
 */
const OTHER_TABLES = [
  'event_change_log',
  'event_changes',
  'event_facts',
  'facts_checked',
  'facts_columns_used',
  'facts_progress',
  'facts_state',
  'journals',
  'schema_migrations',
  'session_fact_days',
  'session_facts',
  'session_facts_asked',
  'deletions',
  'layouts',
  'shard_identity',
  'deleted_events',
  'known_parts',
  'key_usage',
  'ledger_bases',
  'lost_parts',
  'turns',
  'visitor_salts',
]

/** A range of rows: those of a project with a key after `after` and up to `upTo`; null means no bound. */
export interface Range {
  project: string | null
  after: string | null
  upTo: string | null
}

/** Two sets of rows are the same if they have the same number of rows and the same sum of hashes modulo 2^64. */
export interface Digest {
  rows: number
  hash: string
}

/** The fields that identify an event with an `insert_id`. */
export interface NamedEvent {
  project_id: string
  distinct_id: string
  insert_id: string
  /** epoch milliseconds */
  received_at: number
}

export interface JournalRow {
  id: number
  /** epoch milliseconds */
  since: string
  lane: number
  shard: number
}

/** Memory that a query may use for GROUP BY before it spills to disk. */
const MAX_GROUP_BYTES = 2 * 1024 * 1024 * 1024
/** Scanning a whole table takes a long time. */
const SCAN_LIMIT_MS = 60 * 60 * 1000
const SCAN: ClickHouseSettings = {
  ...SIGNS_OF_LIFE,
  // The newest rows of several shards are found by grouping all of them.
  max_bytes_before_external_group_by: String(MAX_GROUP_BYTES),
}

/** Identifies this database, whatever address it has. A database that is dropped and created again gets a new id. */
export async function readStoreId(clickhouse: ClickHouse): Promise<string> {
  const [row] = await clickhouse.rows<{ id: string }>(
    'SELECT toString(uuid) AS id FROM system.databases WHERE name = currentDatabase()',
  )
  return row?.id ?? ''
}

/** The columns of each exported table, in order. */
export async function readColumns(clickhouse: ClickHouse): Promise<Record<string, string[]>> {
  const columns = await Promise.all(
    DUMP_TABLES.map(async ({ name }) => [name, (await readTableColumns(clickhouse, name)).names] as const),
  )
  return Object.fromEntries(columns)
}

/** Tables of the store that this version cannot export. */
export async function findUnknownTables(clickhouse: ClickHouse): Promise<string[]> {
  const rows = await clickhouse.rows<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name",
  )
  const known = new Set([...OTHER_TABLES, ...DUMP_TABLES.map(({ name }) => name)])
  return rows.map(({ name }) => name).filter((name) => !known.has(name))
}

interface Columns {
  /** names in the table's order */
  names: string[]
  /** names and types for the table function `input` */
  structure: string
  /** an expression for the hash of a row */
  hash: string
}

/** The columns that a table stores. @param only columns to return, in this order; default: all */
async function readTableColumns(clickhouse: ClickHouse, table: string, only?: readonly string[]): Promise<Columns> {
  const all = await clickhouse.rows<{ name: string; type: string }>(
    `SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}
     AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') ORDER BY position`,
    { table },
  )
  const rows = only ? only.flatMap((column) => all.find(({ name }) => name === column) ?? []) : all
  // The hash of a tuple that contains a null would be null.
  const hashed = rows.map(({ name, type }) => (type.includes('Nullable') ? `ifNull(toString(${name}), '\\0')` : name))
  return {
    names: rows.map(({ name }) => name),
    structure: rows.map(({ name, type }) => `${name} ${type}`).join(', '),
    hash: `cityHash64(${hashed.join(', ')})`,
  }
}

/** The approximate number of rows of a table, which may include deleted ones. */
export async function estimateRows(shards: Shards, table: string): Promise<number> {
  return await shards.count(async (clickhouse) => {
    const [row] = await clickhouse.rows<{ rows: string | null }>(
      'SELECT total_rows AS rows FROM system.tables WHERE database = currentDatabase() AND name = {table:String}',
      { table },
    )
    return Number(row?.rows ?? 0)
  })
}

/** The projects with rows in a table on any shard. */
export async function listProjects(shards: Shards, { name }: DumpTable): Promise<string[]> {
  const found = await shards.each(({ number }) =>
    scan<{ project_id: string }>(shards.only(number), `SELECT DISTINCT project_id FROM ${name}`),
  )
  return [...new Set(found.flat().map(({ project_id }) => project_id))].sort()
}

/** A chunk becomes one block in ClickHouse's memory, and one part of a table. */
const MAX_CHUNK_BYTES = 64 * 1024 * 1024

/**
 * Finds the last key of the next range of up to `limit` rows and about 64 MiB.
 * @returns null for a table that is exported in one piece, undefined if no rows are left
 */
export async function findNextKey(
  shards: Shards,
  table: DumpTable,
  { project, after }: Omit<Range, 'upTo'>,
  limit: number,
): Promise<string | null | undefined> {
  const { key } = table
  const range = { project, after, upTo: null }
  if (!key) return (await computeDigest(shards, table, range)).rows > 0 ? null : undefined
  const last = key.type === 'hex' ? 'hex(max(k))' : 'toString(max(k))'
  const [row] = await scan<{ count: string; upTo: string }>(
    shards,
    `SELECT count() AS count, ${last} AS upTo FROM (
       SELECT k, sum(b) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - b AS before
       FROM (SELECT ${key.expression} AS k, ${key.bytes} AS b FROM ${buildVersionSource(shards, table)} WHERE ${buildCondition(table, range)}
             ORDER BY k LIMIT ${limit}))
     WHERE before < ${MAX_CHUNK_BYTES}`,
    toParameters(range),
  )
  return row && Number(row.count) > 0 ? row.upTo : undefined
}

/** The rows of a range in ClickHouse's Native format, compressed and with checksums, as its own client sends them. */
export async function readChunk(
  shards: Shards,
  table: DumpTable,
  range: Range,
  signal: AbortSignal,
): Promise<Readable> {
  const { names } = await readTableColumns(shards.first, table.name)
  const order = table.key ? `ORDER BY ${table.key.expression}` : ''
  const keys = buildCondition(table, range)
  return await selectHolders(shards, table).bytes(
    `SELECT ${names.join(', ')} FROM ${buildSource(shards, table, keys)} WHERE ${keys} ${order} FORMAT Native`,
    toParameters(range),
    { ...SCAN, compress: 1 } as ClickHouseSettings,
    { signal, limitMs: SCAN_LIMIT_MS },
  )
}

/** Selects the rows of a chunk whose lanes store on one shard. */
export interface Part {
  lanes: number
  shards: number
  /** the number of the shard */
  number: number
}

/**
 * Stores the result of `readChunk` on one shard. Blocks that were stored under this token before are not stored again.
 * @param table its `columns` are the columns of the chunk; all others get their defaults
 * @param part null for the whole chunk
 */
export async function insertChunk(
  clickhouse: ClickHouse,
  table: DumpTable,
  part: Part | null,
  values: Readable,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  const { names, structure } = await readTableColumns(clickhouse, table.name, table.columns)
  const settings = {
    decompress: 1,
    insert_deduplication_token: token,
    ...ONE_PIECE,
    max_partitions_per_insert_block: '0',
  } as ClickHouseSettings
  const columns = names.join(', ')
  const select =
    part && table.place === 'lane'
      ? `SELECT ${columns} FROM input('${structure}') WHERE ${stateShardSql(table.name, part)} = ${part.number}`
      : ''
  await clickhouse.insert(`INSERT INTO ${table.name} (${columns}) ${select} FORMAT Native`, values, settings, signal)
}

/** The digest of a range on all of these shards. */
export async function computeDigest(shards: Shards, table: DumpTable, range: Range): Promise<Digest> {
  const { hash } = await readTableColumns(shards.first, table.name, table.columns)
  const keys = buildCondition(table, range)
  const [row] = await scan<{ count: string; hash: string }>(
    selectHolders(shards, table),
    `SELECT count() AS count, toString(sum(${hash})) AS hash FROM ${buildSource(shards, table, keys)} WHERE ${keys}`,
    toParameters(range),
  )
  return { rows: Number(row?.count ?? 0), hash: row?.hash ?? '0' }
}

/** Like `computeDigest`, for a store where no row has an older version on another shard: the sum over the shards. */
export async function sumDigests(shards: Shards, table: DumpTable, range: Range): Promise<Digest> {
  const holding = selectHolders(shards, table)
  const digests = await holding.each(({ number }) => computeDigest(holding.only(number), table, range))
  return digests.reduce(addDigests, { rows: 0, hash: '0' })
}

export const EVERYTHING: Range = { project: null, after: null, upTo: null }

export function addDigests(a: Digest, b: Digest): Digest {
  return { rows: a.rows + b.rows, hash: String(BigInt.asUintN(64, BigInt(a.hash) + BigInt(b.hash))) }
}

/** The events with an `insert_id` that were received since a time (epoch ms), in pieces and in no particular order. */
export async function* readNamedEvents(shards: Shards, since: number): AsyncGenerator<NamedEvent[]> {
  const lines = await shards.bytes(
    `SELECT project_id, distinct_id, insert_id, received_at FROM ${shards.table('events')}
     WHERE insert_id != '' AND received_at >= {since:Int64} FORMAT JSONEachRow`,
    { since: String(since) },
    { ...SCAN, output_format_json_quote_64bit_integers: 0 },
    { limitMs: SCAN_LIMIT_MS },
  )
  let rest = ''
  for await (const text of lines.setEncoding('utf8')) {
    const whole = (rest + text).split('\n')
    rest = whole.pop() ?? ''
    if (whole.length > 0) yield whole.map((line) => JSON.parse(line) as NamedEvent)
  }
}

/** The journals that wrote to this store, the latest last. */
export async function readJournalRows(first: ClickHouse): Promise<JournalRow[]> {
  return await first.rows<JournalRow>('SELECT id, since, lane, shard FROM journals ORDER BY since, id DESC')
}

/** Adds the journals of another store, with the lanes that they had there. Idempotent. */
export async function mergeJournals(first: ClickHouse, journals: readonly JournalRow[]): Promise<void> {
  for (const { id, since, lane, shard } of journals) {
    await first.command(
      `INSERT INTO journals (id, since, lane, shard) SELECT {id:UInt32}, {since:Int64}, {lane:UInt16}, {shard:UInt16}
       WHERE (SELECT count() FROM journals WHERE id = {id:UInt32} AND since = {since:Int64}) = 0`,
      { id, since, lane, shard },
    )
  }
}

/** The shards that have the table. */
function selectHolders(shards: Shards, { place }: DumpTable): Shards {
  return place === 'once' ? shards.only(0) : shards
}

/**
 * The current rows of all shards. FINAL works on each shard separately, which is enough: only states may have versions
 * on several shards.
 * @param keys a condition on the project and the key alone
 */
function buildSource(shards: Shards, table: DumpTable, keys: string): string {
  if (table.place === 'lane' && shards.areSeveral) {
    return `(SELECT *, toUInt8(0) AS is_deleted FROM ${newestRows(shards, table.name, { keys })})`
  }
  return buildVersionSource(shards, table)
}

/** Like `buildSource`, but a state that has been on several shards may have more than one row. */
function buildVersionSource(shards: Shards, table: DumpTable): string {
  const name = table.place === 'lane' ? allVersions(shards, table.name) : selectHolders(shards, table).table(table.name)
  return `${name}${table.isVersioned ? ' FINAL' : ''}`
}

/** The condition of a range. It does not compare tuples, because ClickHouse would not use the primary key for that. */
function buildCondition({ key }: DumpTable, { project, after, upTo }: Range): string {
  const value = (name: string) => (key?.type === 'hex' ? `unhex({${name}:String})` : `{${name}:${key?.type}}`)
  const parts = ['1']
  if (project !== null) parts.push('project_id = {project:String}')
  if (after !== null) parts.push(`${key?.expression} > ${value('after')}`)
  if (upTo !== null) parts.push(`${key?.expression} <= ${value('upTo')}`)
  return parts.join(' AND ')
}

function toParameters({ project, after, upTo }: Range): Parameters {
  return {
    ...(project !== null && { project }),
    ...(after !== null && { after }),
    ...(upTo !== null && { upTo }),
  }
}

/** Like `Shards.rows`, for queries that may take long. */
async function scan<Row>(shards: Shards, query: string, values: Parameters = {}): Promise<Row[]> {
  const settings = { ...SCAN, output_format_json_quote_64bit_integers: 1 } as const
  const lines = await text(
    await shards.bytes(`${query} FORMAT JSONEachRow`, values, settings, { limitMs: SCAN_LIMIT_MS }),
  )
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row)
}
