import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { ClickHouseSettings } from '@clickhouse/client'
import type { ClickHouse } from '../clickhouse/client.js'
import type { Scalars } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import type { StateKind } from '../model/state-key.js'
import { ONE_PIECE } from './insert.js'
import { shardOfState } from './state-shard.js'

/** How a table is taken out in chunks: by project, and within one by a key that no row changes. */
export type DumpTable = {
  /** whether only the newest version of a row counts */
  isVersioned: boolean
  /** the expression that rows are walked by, its type, and an expression that tells the bytes of a row */
  key: { expression: string; type: 'UInt64' | 'UInt128' | 'hex'; bytes: string } | null
} & (
  | {
      name: string
      /**
       * where rows go in a store of several shards. `any`: a chunk to any one, as events are found wherever they are.
       * `first`: to the first: the letters and their replays, which have to be together, and are few. `once`: the
       * same, as the table exists there only.
       */
      place: 'any' | 'first' | 'once'
    }
  | {
      name: StateKind
      /** each row to the shard of its lane, as states are looked up there */
      place: 'lane'
    }
)

/**
 * All tables that hold data, in the order in which they are put in again: keys last, so that nothing can be accepted before.
 * `journals` is merged by `mergeJournals`. Chunks are runs of the rows of all shards, so the store that they are put into
 * may have another number of shards.
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
  {
    name: 'profiles',
    place: 'lane',
    isVersioned: true,
    key: { expression: 'distinct_id', type: 'hex', bytes: 'length(properties)' },
  },
  {
    name: 'sessions',
    place: 'lane',
    isVersioned: true,
    key: { expression: 'session_id', type: 'hex', bytes: 'length(properties)' },
  },
  {
    name: 'aliases',
    place: 'lane',
    isVersioned: true,
    key: { expression: 'alias', type: 'hex', bytes: 'length(distinct_id)' },
  },
  {
    name: 'saved',
    place: 'once',
    isVersioned: true,
    key: { expression: 'id', type: 'hex', bytes: 'length(content)' },
  },
  { name: 'api_keys', place: 'once', isVersioned: true, key: null },
]
/** What was deleted is not taken along, so what `deletions` names need not leave the other store's disk. */
const OTHER_TABLES = ['journals', 'schema_migrations', 'deletions', 'layouts', 'shard_identity']

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

/** What tells which event this is, of one that its client named. */
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

/** Of one query's memory; what it groups beyond that goes to the disk. */
const MAX_GROUP_BYTES = 2 * 1024 * 1024 * 1024
/** A scan of a whole table takes long: a connection on which a header comes now and then is not taken for dead. */
const SCAN_LIMIT_MS = 60 * 60 * 1000
const SCAN: ClickHouseSettings = {
  send_progress_in_http_headers: 1,
  http_headers_progress_interval_ms: '60000',
  // The newest rows of several shards are found by grouping all of them.
  max_bytes_before_external_group_by: String(MAX_GROUP_BYTES),
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

interface Columns {
  /** in their order */
  names: string[]
  /** as the function `input` takes them */
  structure: string
  /** an expression for the hash of a row */
  hash: string
}

/** The columns that a table stores. */
async function columnsOf(clickhouse: ClickHouse, table: string): Promise<Columns> {
  const rows = await clickhouse.rows<{ name: string; type: string }>(
    `SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}
     AND default_kind NOT IN ('ALIAS', 'MATERIALIZED', 'EPHEMERAL') ORDER BY position`,
    { table },
  )
  // The hash of a tuple with a null in it would be null.
  const hashed = rows.map(({ name, type }) => (type.includes('Nullable') ? `ifNull(toString(${name}), '\\0')` : name))
  return {
    names: rows.map(({ name }) => name),
    structure: rows.map(({ name, type }) => `${name} ${type}`).join(', '),
    hash: `cityHash64(${hashed.join(', ')})`,
  }
}

/** Rows of a table, about; deleted ones may be counted as well. */
export async function roughCount(shards: Shards, table: string): Promise<number> {
  const counts = await shards.each(async ({ clickhouse }) => {
    const [row] = await clickhouse.rows<{ rows: string | null }>(
      'SELECT total_rows AS rows FROM system.tables WHERE database = currentDatabase() AND name = {table:String}',
      { table },
    )
    return Number(row?.rows ?? 0)
  })
  return counts.reduce((sum, count) => sum + count, 0)
}

/** The projects that have rows in a table, on whichever shard. */
export async function projectsOf(shards: Shards, { name }: DumpTable): Promise<string[]> {
  const found = await shards.each(({ number }) =>
    scan<{ project_id: string }>(shards.only(number), `SELECT DISTINCT project_id FROM ${name}`),
  )
  return [...new Set(found.flat().map(({ project_id }) => project_id))].sort()
}

/** A chunk is one block of ClickHouse's memory, and one part of a table. */
const MAX_CHUNK_BYTES = 64 * 1024 * 1024

/** The last key of the next run of up to `limit` rows and about 64 MiB; null for a table in one piece, undefined where no rows are left. */
export async function nextKey(
  shards: Shards,
  table: DumpTable,
  { project, after }: Omit<Range, 'upTo'>,
  limit: number,
): Promise<string | null | undefined> {
  const { key } = table
  const range = { project, after, upTo: null }
  if (!key) return (await digestOf(shards, table, range)).rows > 0 ? null : undefined
  const last = key.type === 'hex' ? 'hex(max(k))' : 'toString(max(k))'
  const [row] = await scan<{ count: string; upTo: string }>(
    shards,
    `SELECT count() AS count, ${last} AS upTo FROM (
       SELECT k, sum(b) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - b AS before
       FROM (SELECT ${key.expression} AS k, ${key.bytes} AS b FROM ${rowsOf(shards, table)} WHERE ${condition(table, range)}
             ORDER BY k LIMIT ${limit}))
     WHERE before < ${MAX_CHUNK_BYTES}`,
    parameters(range),
  )
  return row && Number(row.count) > 0 ? row.upTo : undefined
}

/** What a run holds, in ClickHouse's format Native, compressed and with checksums as its own client sends it. */
export async function readChunk(
  shards: Shards,
  table: DumpTable,
  range: Range,
  signal: AbortSignal,
): Promise<Readable> {
  const { names } = await columnsOf(shards.first, table.name)
  const order = table.key ? `ORDER BY ${table.key.expression}` : ''
  const keys = condition(table, range)
  return await holders(shards, table).bytes(
    `SELECT ${names.join(', ')} FROM ${source(shards, table, keys)} WHERE ${keys} ${order} FORMAT Native`,
    parameters(range),
    { ...SCAN, compress: 1 } as ClickHouseSettings,
    { signal, limitMs: SCAN_LIMIT_MS },
  )
}

/** What to store of a chunk on one shard: only the rows whose lane stores there. */
export interface Part {
  lanes: number
  shards: number
  /** the number of the shard */
  number: number
}

/**
 * Stores what `readChunk` gave on one shard. Blocks that are there already under this token are not stored again.
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
  const { names, structure } = await columnsOf(clickhouse, table.name)
  const settings = {
    decompress: 1,
    insert_deduplication_token: token,
    ...ONE_PIECE,
    max_partitions_per_insert_block: '0',
  } as ClickHouseSettings
  const columns = names.join(', ')
  const select =
    part && table.place === 'lane'
      ? `SELECT ${columns} FROM input('${structure}') WHERE ${shardOfState(table.name, part)} = ${part.number}`
      : ''
  await clickhouse.insert(`INSERT INTO ${table.name} (${columns}) ${select} FORMAT Native`, values, settings, signal)
}

/** What is there in a range, on all of these shards. */
export async function digestOf(shards: Shards, table: DumpTable, range: Range): Promise<Digest> {
  const { hash } = await columnsOf(shards.first, table.name)
  const keys = condition(table, range)
  const [row] = await scan<{ count: string; hash: string }>(
    holders(shards, table),
    `SELECT count() AS count, toString(sum(${hash})) AS hash FROM ${source(shards, table, keys)} WHERE ${keys}`,
    parameters(range),
  )
  return { rows: Number(row?.count ?? 0), hash: row?.hash ?? '0' }
}

/** As `digestOf`, of a store in which no row has an older version on another shard: the sum of what each shard has. */
export async function sumOfDigests(shards: Shards, table: DumpTable, range: Range): Promise<Digest> {
  const holding = holders(shards, table)
  const digests = await holding.each(({ number }) => digestOf(holding.only(number), table, range))
  return digests.reduce(addDigests, { rows: 0, hash: '0' })
}

export const EVERYTHING: Range = { project: null, after: null, upTo: null }

export function addDigests(a: Digest, b: Digest): Digest {
  return { rows: a.rows + b.rows, hash: String(BigInt.asUintN(64, BigInt(a.hash) + BigInt(b.hash))) }
}

/** The events with an `insert_id` that were received since a time in epoch ms, in pieces and in no order. */
export async function* namedEvents(shards: Shards, since: number): AsyncGenerator<NamedEvent[]> {
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
export async function journalRows(first: ClickHouse): Promise<JournalRow[]> {
  return await first.rows<JournalRow>('SELECT id, since, lane, shard FROM journals ORDER BY since, id DESC')
}

/** Adds another store's journals, with the lanes that they had there. It can be repeated. */
export async function mergeJournals(first: ClickHouse, journals: readonly JournalRow[]): Promise<void> {
  for (const { id, since, lane, shard } of journals) {
    await first.command(
      `INSERT INTO journals (id, since, lane, shard) SELECT {id:UInt32}, {since:Int64}, {lane:UInt16}, {shard:UInt16}
       WHERE (SELECT count() FROM journals WHERE id = {id:UInt32} AND since = {since:Int64}) = 0`,
      { id, since, lane, shard },
    )
  }
}

/** The shards that have rows of a table. */
function holders(shards: Shards, { place }: DumpTable): Shards {
  return place === 'once' ? shards.only(0) : shards
}

/**
 * The rows that count, of all shards. Letters and their replays are together on a shard, so a FINAL of each is one of all.
 * @param keys a condition on the project and the key alone
 */
function source(shards: Shards, table: DumpTable, keys: string): string {
  if (table.place === 'lane' && shards.areSeveral) {
    return `(SELECT *, toUInt8(0) AS is_deleted FROM ${shards.newest(table.name, { keys })})`
  }
  return rowsOf(shards, table)
}

/** As `source`, but of a state that has been on several shards maybe more than one row. */
function rowsOf(shards: Shards, table: DumpTable): string {
  const name = table.place === 'lane' ? shards.versionsOf(table.name) : holders(shards, table).table(table.name)
  return `${name}${table.isVersioned ? ' FINAL' : ''}`
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

/** As Shards.rows, for queries that may take long. */
async function scan<Row>(shards: Shards, query: string, values: Scalars = {}): Promise<Row[]> {
  const settings = { ...SCAN, output_format_json_quote_64bit_integers: 1 } as const
  const lines = await text(
    await shards.bytes(`${query} FORMAT JSONEachRow`, values, settings, { limitMs: SCAN_LIMIT_MS }),
  )
  return lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row)
}
