import { Readable } from 'node:stream'
import type { ClickHouse } from '../clickhouse/client.js'
import type { ClickHouseSettings } from '../clickhouse/parameters.js'
import type { Entry } from '../journal/journal.js'

/** Returns the text around the body of an entry that makes it a line of JSONEachRow. */
export type LineFormat = (entry: Entry) => { head: string; tail: string }

/** One line for the rows of an entry, whose position is their version. */
export const versionedRows: LineFormat = ({ position }) => ({ head: `{"version":${position},"rows":[`, tail: ']}\n' })

/** Reads objects as verbatim strings, and skips unknown fields. */
const READ_VERBATIM: ClickHouseSettings = {
  input_format_json_read_objects_as_strings: 1,
  input_format_json_throw_on_bad_escape_sequence: 0,
  // Fractions must come back exact to the last bit.
  precise_float_parsing: 1,
  input_format_skip_unknown_fields: 1,
  input_format_json_ignore_unknown_keys_in_named_tuple: 1,
  input_format_json_defaults_for_missing_elements_in_named_tuple: 1,
  // One thread takes 0.53 µs of CPU per event where several took 0.80 (chdb 26.7, 2 cores, blocks of 150 000 events).
  input_format_parallel_parsing: 0,
}

/**
 * A block becomes one part per partition, so that a rejected block stores nothing and a retried one is split in the
 * same places. Both limits are far larger than any block.
 */
export const ONE_PIECE: ClickHouseSettings = {
  max_insert_threads: '1',
  min_insert_block_size_rows: '1000000000',
  min_insert_block_size_bytes: String(64 * 1024 ** 3),
}

/**
 * An operator's materialized view runs after the block is stored. If the view failed, we would take the error for a
 * fault of the data and insert the events again. With this setting, ClickHouse only logs the error, and the view lacks
 * the block.
 */
const VIEWS_APART: ClickHouseSettings = { materialized_views_ignore_errors: 1 }

/** Smaller bodies are joined into pieces of this size; larger ones are sent without copying. */
const PIECE_BYTES = 32 * 1024
/** How long joining may block the event loop, ms: a block of single events took 8 ms, which delayed every request. */
const SLICE_MS = 1

/** Sends the entries' bodies unchanged; the query has ClickHouse split them into rows. */
export async function insertEntries(
  clickhouse: ClickHouse,
  query: string,
  entries: Entry[],
  toLine: LineFormat,
  signal: AbortSignal,
  settings: ClickHouseSettings = {},
): Promise<void> {
  const values = Readable.from(pieces(entries, toLine), { objectMode: false })
  await clickhouse.insert(query, values, { ...READ_VERBATIM, ...ONE_PIECE, ...VIEWS_APART, ...settings }, signal)
}

/**
 * The lines of the entries, small ones joined, because each piece costs some microseconds. Yields to the event loop, so
 * that requests are served in between.
 */
async function* pieces(entries: Entry[], toLine: LineFormat): AsyncGenerator<Buffer> {
  let small: Buffer[] = []
  let bytes = 0
  let sliceEnd = performance.now() + SLICE_MS
  const add = (part: Buffer) => {
    small.push(part)
    bytes += part.length
  }
  const takePiece = () => {
    const piece = Buffer.concat(small, bytes)
    small = []
    bytes = 0
    return piece
  }
  let tail = ''
  for (const entry of entries) {
    const line = toLine(entry)
    add(Buffer.from(tail + line.head))
    tail = line.tail
    if (entry.body.length < PIECE_BYTES) add(entry.body)
    if (bytes >= PIECE_BYTES || entry.body.length >= PIECE_BYTES) yield takePiece()
    if (entry.body.length >= PIECE_BYTES) yield entry.body
    if (performance.now() < sliceEnd) continue
    await new Promise((resolve) => setImmediate(resolve))
    sliceEnd = performance.now() + SLICE_MS
  }
  add(Buffer.from(tail))
  yield takePiece()
}

/** Settings of an INSERT … SELECT that stores nothing if one with this token has stored its rows before. */
export function deduplicateBy(token: string): ClickHouseSettings {
  return { insert_deduplication_token: token, deduplicate_insert_select: 'force_enable' }
}

/** Stores rows with the columns that they have. @param into the table, with a list of columns if some get defaults */
export async function insertRows(
  clickhouse: ClickHouse,
  into: string,
  rows: readonly object[],
  limitMs?: number,
): Promise<void> {
  if (rows.length === 0) return
  const lines = rows.map((row) => JSON.stringify(row)).join('\n')
  await clickhouse.command(`INSERT INTO ${into} FORMAT JSONEachRow\n${lines}`, {}, {}, limitMs)
}

/**
 * Returns a version for rows that replace all earlier ones, even if the clock was set back.
 * @param at epoch ms
 */
export async function nextVersion(clickhouse: ClickHouse, table: string, at: number): Promise<number> {
  const [row] = await clickhouse.rows<{ last: string }>(`SELECT max(version) AS last FROM ${table}`)
  return Math.max(Number(row?.last ?? 0) + 1, at)
}

/** The suffix of a replay's INSERT token. */
export const REPLAYED = ':dead letter'

/**
 * Whether an INSERT whose token starts like this is still running, on any replica, so that its rows may still appear;
 * null if it may be running on a replica that does not respond.
 */
export async function isInserting(clickhouse: ClickHouse, prefix: string): Promise<boolean | null> {
  const found = await clickhouse.rowsOfReplicas(
    "SELECT 1 FROM system.processes WHERE startsWith(Settings['insert_deduplication_token'], {prefix:String}) LIMIT 1",
    { prefix },
  )
  if (found.some((rows) => rows !== null && rows.length > 0)) return true
  return found.includes(null) ? null : false
}
