import type { Connection, RowStream } from '../../client/connection.js'
import { retry } from '../../client/retry.js'
import type { RowFormat } from '../../contract/formats.js'
import { MAX_EXPORT } from '../../contract/limits.js'
import { parseCursor } from '../../model/cursor.js'
import { TRANSFER_RETRY } from '../check-service.js'

/** The service may take 100 s to find the first event that matches a filter. */
const SILENCE_MS = 120_000

/** Which events are exported; an undefined property does not restrict them. */
export interface Filter {
  event?: string | undefined
  distinct_id?: string | undefined
  session_id?: string | undefined
  /** event time in milliseconds, inclusive */
  from?: string | undefined
  /** exclusive */
  to?: string | undefined
}

/** A run of the project's events that is still being received. */
export interface Run extends Pick<RowStream, 'chunks'> {
  /** the cursor after its last row */
  next: string
  /** whether a limit ended it */
  hasMore: boolean
  /** accepted events that were not in the store yet when it began */
  pending: number
}

/** Reads runs of events by `GET /public/export`. */
export class Runs {
  readonly #connection: Connection
  readonly #format: RowFormat
  readonly #filter: Filter
  readonly #end = new AbortController()

  /** @param signal aborts all reads */
  constructor(connection: Connection, format: RowFormat, filter: Filter, signal: AbortSignal) {
    this.#connection = connection
    this.#format = format
    this.#filter = filter
    if (signal.aborted) this.close()
    signal.addEventListener('abort', () => this.close())
  }

  /**
   * Opens the run that begins at a cursor, in one attempt.
   * @param limit maximum number of rows; null for all
   * @throws TallyhouseError
   */
  async open(cursor: string | null, limit: number | null): Promise<Run> {
    return await this.#send('GET', { format: this.#format, cursor, limit })
  }

  /** Retries a read of a run until it succeeds, fails permanently, or no attempt is left. */
  async retried<T>(read: () => Promise<T>): Promise<T> {
    return await retry(read, TRANSFER_RETRY, this.#end.signal)
  }

  /**
   * Whether the service counts at most `rows` events between the cursors `since` and `next`. Fewer are fine, because
   * events may have been deleted.
   */
  async areAll(rows: number, since: string | null, next: string): Promise<boolean> {
    if (rows === 0 || rows > MAX_EXPORT) return true
    const after = await this.retried(() => this.#send('HEAD', { cursor: since, limit: rows }))
    // Ids sort in the order of acceptance.
    return !after.hasMore || decodeCursor(after.next) >= decodeCursor(next)
  }

  /** Aborts all reads. */
  close(): void {
    this.#end.abort()
  }

  async #send(method: 'GET' | 'HEAD', more: Record<string, string | number | null>): Promise<Run> {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries({ ...this.#filter, ...more })) {
      if (value !== undefined && value !== null) query.set(name, String(value))
    }
    const call = { method, path: `/public/export?${query}`, timeoutMs: SILENCE_MS }
    const { headers, chunks } = await this.#connection.rows(call, { signal: this.#end.signal })
    const next = headers.get('x-next-cursor')
    if (next === null) throw new Error('The response lacks x-next-cursor. Does a proxy remove headers?')
    return { chunks, next, hasMore: headers.get('x-has-more') === 'true', pending: Number(headers.get('x-pending')) }
  }
}

function decodeCursor(cursor: string): string {
  return parseCursor(cursor)?.id ?? ''
}
