import { addAbortSignal, type Readable } from 'node:stream'
import {
  type ClickHouseClient,
  ClickHouseError,
  type ClickHouseSettings,
  createClient,
  EXCEPTION_TAG_HEADER_NAME,
} from '@clickhouse/client'
import { StoreTimeoutError, StoreUnreachableError, storeError } from './errors.js'
import { untilException } from './exception-guard.js'
import type { Parameters, Scalars } from './parameters.js'
import { QueryStreams } from './query-stream.js'
import { type NoSlotError, ReadSlots, type SlotLimits } from './read-slots.js'
import { Spool, type SpoolLimits, SpoolMemory } from './spool.js'

export interface StoreOptions {
  /** http://user:password@host:8123/database; the database is created if missing */
  url: string
  /** timeout of an INSERT in ms; the block is then retried, and its token prevents duplicates */
  insertTimeoutMs?: number
  /** how streamed results share connections; default: `SLOT_LIMITS` */
  slotLimits?: SlotLimits
  /** how much may be buffered for slow clients; default: `SPOOL_LIMITS` */
  spoolLimits?: SpoolLimits
}

const QUERY_TIMEOUT_MS = 30_000
const INSERT_TIMEOUT_MS = 120_000
const PING_TIMEOUT_MS = 2_000
/** Without a byte within a result that has begun: a query that finds little sends little. */
const SILENT_MS = 120_000
/** A statement may contain a request's body in base64. */
const MAX_QUERY_BYTES = String(512 * 1024 * 1024)
const CONNECTIONS = 32
const MIB = 1024 * 1024
export const SLOT_LIMITS: SlotLimits = { slots: CONNECTIONS, perProject: 24, waitMs: 5_000, stalledMs: 3_000 }
/** A page of 10 000 ordinary events is 2 MB. */
const SPOOL_LIMITS: SpoolLimits = { answerBytes: 4 * MIB, totalBytes: 64 * MIB }
/** ClickHouse cancels a query when its client disconnects, if the query cannot write. */
const READ: ClickHouseSettings = { readonly: '2', cancel_http_readonly_queries_on_client_close: 1 }
/** Well under the server's keep_alive_timeout, so that no request meets a closing socket. */
const IDLE_SOCKET_MS = 2_500

/** Limits of one query. */
export interface Reading {
  /** the project of a streamed result; no project can use all connections */
  project?: string
  /** an abort cancels the query and breaks the stream */
  signal?: AbortSignal | undefined
  /** timeout of the first byte in ms; default 30 s */
  limitMs?: number | undefined
}

/**
 * Queries over HTTP, for the embedded engine and a cluster alike. Every call ends in bounded time; only the stream that
 * `bytes` returns has no limit of its own.
 */
export class ClickHouse {
  readonly #client: ClickHouseClient
  readonly #streams: QueryStreams
  readonly #slots: ReadSlots
  readonly #spooled: SpoolMemory
  readonly #insertTimeoutMs: number
  readonly database: string

  constructor({
    url,
    insertTimeoutMs = INSERT_TIMEOUT_MS,
    slotLimits = SLOT_LIMITS,
    spoolLimits = SPOOL_LIMITS,
  }: StoreOptions) {
    this.#slots = new ReadSlots(slotLimits)
    this.#spooled = new SpoolMemory(spoolLimits)
    this.#insertTimeoutMs = insertTimeoutMs
    const address = new URL(url)
    this.database = decodeURIComponent(address.pathname.slice(1)) || 'default'
    const user = decodeURIComponent(address.username) || 'default'
    const password = decodeURIComponent(address.password)
    this.#streams = new QueryStreams({
      origin: address.origin,
      user,
      password,
      connections: CONNECTIONS,
      idleMs: IDLE_SOCKET_MS,
      silentMs: SILENT_MS,
    })
    this.#client = createClient({
      url: address.origin,
      username: user,
      password,
      database: this.database,
      application: 'tallyhouse',
      max_open_connections: CONNECTIONS,
      request_timeout: INSERT_TIMEOUT_MS,
      keep_alive: { enabled: true, idle_socket_ttl: IDLE_SOCKET_MS },
      clickhouse_settings: {
        // 26.x buffers inserts by default; ours are acknowledged only once they are parts.
        async_insert: 0,
        // A patch part; the table's setting of this name does not decide, and without it a DELETE is a mutation.
        lightweight_delete_mode: 'lightweight_update_force',
      },
      log: { LoggerClass: Silent },
    })
  }

  /** Runs a statement without a result. Parameters go in the URL, so large values belong in the statement. */
  async command(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    limitMs = QUERY_TIMEOUT_MS,
  ): Promise<void> {
    await answered(limitMs, (abort_signal) =>
      this.#client.command({
        query,
        query_params: parameters,
        clickhouse_settings: { ...settings, wait_end_of_query: 1, max_query_size: MAX_QUERY_BYTES },
        abort_signal,
      }),
    )
  }

  /** Runs a statement outside our database, to create it. */
  async commandWithoutDatabase(query: string): Promise<void> {
    await this.command(query, {}, { database: 'default' } as ClickHouseSettings)
  }

  /** The rows as objects; 64-bit integers are strings. Large parameters go in the body. An abort cancels the query. */
  async rows<Row>(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    { signal, limitMs = QUERY_TIMEOUT_MS }: Reading = {},
  ): Promise<Row[]> {
    const read = async (abort_signal: AbortSignal) => {
      const result = await this.#client.query({
        query,
        query_params: parameters,
        use_multipart_params_auto: true,
        clickhouse_settings: { ...READ, ...settings, wait_end_of_query: 1, output_format_json_quote_64bit_integers: 1 },
        format: 'JSONEachRow',
        abort_signal,
      })
      return await result.json<Row>()
    }
    return await answered(limitMs, read, signal)
  }

  /**
   * The bytes of the result in the query's format. The server completes the result before it sends the first
   * byte (what does not fit its memory waits on its disk), so that an error in the middle of it is an error here and
   * never a short stream. With `wait_end_of_query: 0` it does not, and such an error breaks the stream: what is read from
   * it is complete if, and only if, it ends. `limitMs` limits the first byte. Bytes not read yet are buffered
   * in memory within limits; beyond them the stream is aborted if another query needs its connection.
   */
  async bytes(
    query: string,
    parameters: Scalars = {},
    settings: ClickHouseSettings = {},
    reading: Reading = {},
  ): Promise<Readable> {
    const { signal, limitMs = QUERY_TIMEOUT_MS, project = '' } = reading
    const all = { database: this.database, wait_end_of_query: 1, ...READ, ...settings } as const
    const slot = await this.#slots.take(project, signal).catch(unreachable)
    const read = (abort: AbortSignal) => this.#streams.open(query, parameters, all, abort)
    const answer = await answered(limitMs, read, signal).catch((error) => {
      slot.release()
      throw error
    })
    for (const event of ['end', 'close']) answer.once(event, () => slot.release())
    const tag = answer.headers[EXCEPTION_TAG_HEADER_NAME]
    if (all.wait_end_of_query === 0 && typeof tag !== 'string') {
      // A proxy removed the header, so it may also complete a transfer that ClickHouse broke.
      answer.destroy()
      return await this.bytes(query, parameters, { ...settings, wait_end_of_query: 1 }, reading)
    }
    const rows = all.wait_end_of_query === 0 ? untilException(answer, String(tag), storeError) : answer
    const stream = new Spool(rows, this.#spooled, (since) => slot.stalled(since))
    slot.onCutOff(() => stream.destroy(new Error('its client did not read it, and another needed its connection')))
    return signal ? addAbortSignal(signal, stream) : stream
  }

  /** Sends rows as they are, in the format that the INSERT names; resolves when they are stored, throws when aborted. */
  async insert(query: string, values: Readable, settings: ClickHouseSettings, signal: AbortSignal): Promise<void> {
    const insert = async (abort_signal: AbortSignal) => {
      const { stream } = await this.#client.exec({
        query,
        values,
        clickhouse_settings: { ...settings, wait_end_of_query: 1 },
        abort_signal,
      })
      // An unread response keeps its connection.
      for await (const _ of stream);
    }
    await answered(this.#insertTimeoutMs, insert, signal)
  }

  /** @throws if ClickHouse does not respond to a query within 2 s, or refuses the login */
  async ping(): Promise<void> {
    await answered(PING_TIMEOUT_MS, async (abort_signal) => {
      const result = await this.#client.ping({ select: true, abort_signal })
      if (!result.success) throw result.error
    })
  }

  async close(): Promise<void> {
    this.#streams.close()
    await this.#client.close()
  }
}

function unreachable(error: NoSlotError): never {
  throw new StoreUnreachableError(`ClickHouse was not asked: ${error.message}`, { cause: error })
}

async function answered<T>(
  limitMs: number,
  request: (signal: AbortSignal) => Promise<T>,
  outer?: AbortSignal,
): Promise<T> {
  const controller = new AbortController()
  const abort = () => controller.abort()
  let isOver = false
  const timer = setTimeout(() => {
    isOver = true
    abort()
  }, limitMs)
  // Not AbortSignal.any: Node 20.0 has none, and the signal outlives a million requests, which are to leave nothing on it.
  outer?.addEventListener('abort', abort)
  if (outer?.aborted) abort()
  try {
    return await request(controller.signal)
  } catch (error) {
    if (error instanceof ClickHouseError) throw storeError(error)
    if (isOver) throw new StoreTimeoutError(`ClickHouse did not answer within ${limitMs} ms.`, { cause: error })
    const message = error instanceof Error ? error.message : String(error)
    // Truncated before its code, so its kind is unknown.
    if (message.includes('DB::Exception')) throw new StoreUnreachableError('ClickHouse sent a truncated error.')
    throw new StoreUnreachableError(`ClickHouse did not answer: ${message}`, { cause: error })
  } finally {
    clearTimeout(timer)
    outer?.removeEventListener('abort', abort)
  }
}

/** Every failure reaches the caller as an exception; the caller logs it in context. */
class Silent {
  trace(): void {}
  debug(): void {}
  info(): void {}
  warn(): void {}
  error(): void {}
}
