import type { Connection } from '../../client/connection.js'
import type { RetryPolicy } from '../../client/retry.js'
import type { RowFormat } from '../../contract/formats.js'
import { MAX_PAGE } from '../../contract/limits.js'
import { LINE_FEED, QUOTE } from '../../json/bytes.js'
import { memberText } from '../../json/spans.js'

/** About six minutes of pauses, as for an import. */
const EXPORT_RETRY: RetryPolicy = { attempts: 30, baseDelayMs: 250, maxDelayMs: 15_000 }

/** Pages of rows are kept near this size, since each is held in memory. */
const PAGE_BYTES = 8 * 1024 * 1024
const FIRST_PAGE = 1000
const UUID_LENGTH = 36
const ATTEMPTS = 5

/** Which events are exported; an undefined property does not restrict them. */
export interface Filter {
  event?: string | undefined
  distinct_id?: string | undefined
  /** event time in milliseconds, inclusive */
  from?: string | undefined
  /** exclusive */
  to?: string | undefined
}

/** A page of an export. */
export interface Page {
  /** in the export's format; each CSV page begins with the names of its columns */
  bytes: Uint8Array
  rows: number
  /** the eventId of its last row; null if it is empty */
  lastId: string | null
  /** the cursor of the next page; null if there is none yet */
  next: string | null
  /** accepted events that were not in the store yet */
  pending: number
}

/** Reads the pages of an export in one of the formats. */
export class Pages {
  readonly #connection: Connection
  readonly #format: RowFormat
  readonly #filter: Filter
  #limit: number
  #hasShortPages = false

  constructor(connection: Connection, format: RowFormat, filter: Filter) {
    this.#connection = connection
    this.#format = format
    this.#filter = filter
    // Parquet files should be as large as the service allows.
    this.#limit = format === 'parquet' ? MAX_PAGE : FIRST_PAGE
  }

  /** @throws Error if the page cannot be read or is truncated */
  async read(cursor: string | null, signal: AbortSignal): Promise<Page> {
    if (this.#format === 'parquet') return await this.#readParquet(cursor, signal)
    const page = await this.#readRows(cursor, this.#limit, signal)
    const { rows, lastId } = this.#format === 'csv' ? lookAtCsv(page.bytes) : lookAtNdjson(page.bytes)
    const isShort = page.next !== null && rows !== this.#limit
    this.#hasShortPages ||= isShort
    // With a filter that matches few events, a page ends when the service's search time is over.
    if (isShort && !this.#isFiltered) {
      throw new Error(`A page of ${this.#limit} events came with ${rows} rows. Rerun the command to resume.`)
    }
    if (rows > 0) this.#limit = Math.min(Math.max(Math.floor((PAGE_BYTES * rows) / page.bytes.length), 1), MAX_PAGE)
    return { ...page, rows, lastId }
  }

  /** Whether any page was shorter than requested; the service then has no time to count all events either. */
  get hasShortPages(): boolean {
    return this.#hasShortPages
  }

  get #isFiltered(): boolean {
    return Object.values(this.#filter).some((value) => value !== undefined)
  }

  /** The event at a position among all matching ones, from 1, by the service's own count; null if there are fewer. */
  async eventIdAt(place: number, signal: AbortSignal): Promise<string | null> {
    const { ids } = await this.#readIds(null, 1, signal, place)
    return ids[0] ?? null
  }

  async #readRows(cursor: string | null, limit: number, signal: AbortSignal) {
    const path = this.#path({ format: this.#format, cursor, limit })
    const { bytes, headers } = await this.#connection.rows({ method: 'GET', path }, { signal }, EXPORT_RETRY)
    return { bytes, next: headers.get('x-next-cursor'), pending: Number(headers.get('x-pending')) }
  }

  /**
   * The number of rows in a Parquet file and the last of them come from the same page as JSON, read before and after. If
   * the two differ, events were stored or deleted meanwhile, and the page is read again.
   */
  async #readParquet(cursor: string | null, signal: AbortSignal): Promise<Page> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const before = await this.#readIds(cursor, this.#limit, signal)
      const limit = Math.max(before.ids.length, 1)
      const { bytes } = await this.#readRows(cursor, limit, signal)
      const after = await this.#readIds(cursor, limit, signal)
      if (before.ids.join() !== after.ids.join()) continue
      this.#hasShortPages ||= before.next !== null && before.ids.length < this.#limit
      return {
        bytes,
        rows: before.ids.length,
        lastId: before.ids.at(-1) ?? null,
        next: before.next,
        pending: before.pending,
      }
    }
    throw new Error('Events are deleted faster than a page is read. Rerun the command to resume.')
  }

  async #readIds(cursor: string | null, limit: number, signal: AbortSignal, page?: number) {
    const path = this.#path({ cursor, limit, page })
    const { value } = await this.#connection.call({ method: 'GET', path }, { signal }, EXPORT_RETRY)
    const { events, next, pending } = value as { events: { eventId: string }[]; next: string | null; pending: number }
    return { ids: events.map(({ eventId }) => eventId), next, pending }
  }

  #path(more: Record<string, string | number | null | undefined>): string {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries({ ...this.#filter, ...more })) {
      if (value !== undefined && value !== null) query.set(name, String(value))
    }
    return `/public/events?${query}`
  }
}

/** Counts the rows, one per line, and reads the eventId of the last. */
function lookAtNdjson(bytes: Uint8Array): { rows: number; lastId: string | null } {
  let rows = 0
  let last = 0
  for (let at = 0; at < bytes.length; rows++) {
    last = at
    const end = bytes.indexOf(LINE_FEED, at)
    if (end === -1) throw new Error('A page of the export was truncated.')
    at = end + 1
  }
  if (rows === 0) return { rows, lastId: null }
  const line = new TextDecoder().decode(bytes.subarray(last))
  return { rows, lastId: JSON.parse(memberText(line, 'eventId') ?? 'null') as string | null }
}

/** Counts the rows after the names of the columns. A line end in a quoted cell does not end the row. */
function lookAtCsv(bytes: Uint8Array): { rows: number; lastId: string | null } {
  let rows = -1
  let isQuoted = false
  let start = 0
  let last = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === QUOTE) isQuoted = !isQuoted
    else if (byte === LINE_FEED && !isQuoted) {
      rows++
      last = start
      start = at + 1
    }
  }
  if (start !== bytes.length) throw new Error('A page of the export was truncated.')
  // The first cell is the eventId in quotes.
  const id = new TextDecoder().decode(bytes.subarray(last + 1, last + 1 + UUID_LENGTH))
  return rows > 0 ? { rows, lastId: id } : { rows: Math.max(rows, 0), lastId: null }
}

/** The length of the line with the names of the columns. */
export function csvHeaderLength(bytes: Uint8Array): number {
  return bytes.indexOf(LINE_FEED) + 1
}
