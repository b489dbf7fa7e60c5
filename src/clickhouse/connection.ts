import { setMaxListeners } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { StoreError, StoreTimeoutError, StoreUnreachableError } from './errors.js'
import { readBytes } from './exception-guard.js'
import type { ClickHouseSettings } from './parameters.js'
import { Requests, type Statement } from './requests.js'

/** The timeout of an INSERT, ms. */
export const INSERT_TIMEOUT_MS = 120_000
export const CONNECTIONS = 32
/** A query fails if its default database does not exist. */
export const WITHOUT_DATABASE = { database: 'default' }
/** How long the server may be silent in the middle of a result, ms: a query that finds little sends little. */
const SILENT_MS = 120_000
/**
 * Results come from ClickHouse's memory: an error within the first 2 MiB replaces the result, and a later one breaks it.
 * With `wait_end_of_query`, ClickHouse would write each result to a file. On a full disk, the client would then receive
 * no rows, or only the first ones, and no error (26.7). Formatting in parallel would add a sixth to the CPU time of a
 * short query.
 */
export const IN_MEMORY = {
  wait_end_of_query: 0,
  http_response_buffer_size: String(2 * 1024 * 1024),
  output_format_parallel_formatting: 0,
} satisfies ClickHouseSettings
/** Well under the server's keep_alive_timeout, so that no request meets a closing socket. */
const IDLE_SOCKET_MS = 2_500

/** ClickHouse's own errors always have a text; the client makes an error response's body the message. */
const NO_TEXT = 'the response is an error without text, so it is not from ClickHouse: check CLICKHOUSE_URL'

/** The connections to one server. */
export class Connection {
  /** URL with user and password */
  readonly url: string
  readonly database: string
  readonly #settings: ClickHouseSettings
  readonly #statements: Requests
  /** Apart from the others, because a slow reader may hold one for minutes. */
  readonly #streams: Requests
  readonly #abandoned = new AbortController()

  /** @param settings of every statement */
  constructor(url: string, settings: ClickHouseSettings = {}) {
    const address = new URL(url)
    this.url = url
    this.database = decodeURIComponent(address.pathname.slice(1)) || 'default'
    this.#settings = {
      database: this.database,
      ...IN_MEMORY,
      // 26.x buffers inserts by default; ours must not be acknowledged before they are parts.
      async_insert: 0,
      // Makes a DELETE write a patch part instead of a mutation; the table's setting of this name has no effect.
      lightweight_delete_mode: 'lightweight_update_force',
      ...settings,
    }
    // Each request in flight has a listener. Without this, Node would warn of a leak at the eleventh.
    setMaxListeners(0, this.#abandoned.signal)
    const options = {
      origin: address.origin,
      user: decodeURIComponent(address.username) || 'default',
      password: decodeURIComponent(address.password),
      connections: CONNECTIONS,
      idleMs: IDLE_SOCKET_MS,
      silentMs: SILENT_MS,
    }
    this.#statements = new Requests(options)
    this.#streams = new Requests(options)
  }

  /**
   * Runs a request for up to `limitMs`.
   * @throws StoreError for ClickHouse's own error, StoreTimeoutError, StoreUnreachableError for any other failure
   */
  async run<T>(limitMs: number, request: (signal: AbortSignal) => Promise<T>, outer?: AbortSignal): Promise<T> {
    const controller = new AbortController()
    const abort = () => controller.abort()
    let isOver = false
    const timer = setTimeout(() => {
      isOver = true
      abort()
    }, limitMs)
    // Do not use AbortSignal.any: these signals outlive millions of requests, which must leave nothing in them.
    const signals = outer ? [outer, this.#abandoned.signal] : [this.#abandoned.signal]
    for (const signal of signals) {
      signal.addEventListener('abort', abort)
      if (signal.aborted) abort()
    }
    try {
      return await request(controller.signal)
    } catch (error) {
      if (error instanceof StoreError) throw error
      if (isOver) throw new StoreTimeoutError(`ClickHouse did not answer within ${limitMs} ms.`, { cause: error })
      const message = readText(error) || NO_TEXT
      // The error was truncated before its code, so its kind is unknown.
      if (message.includes('DB::Exception')) throw new StoreUnreachableError('ClickHouse sent a truncated error.')
      throw new StoreUnreachableError(`ClickHouse did not answer: ${message}`, { cause: error })
    } finally {
      clearTimeout(timer)
      for (const signal of signals) signal.removeEventListener('abort', abort)
    }
  }

  /** Runs a statement without a result. An abort ends it at any time. */
  async command(statement: Statement, signal: AbortSignal): Promise<void> {
    await readBytes(await this.#open(this.#statements, statement, signal))
  }

  /** The rows of a query as objects: all of them, or an error. An abort ends it at any time. */
  async rows<Row>({ query, ...statement }: Statement, signal: AbortSignal): Promise<Row[]> {
    const asJson = { ...statement, query: `${query}\nFORMAT JSONEachRow` }
    const bytes = await readBytes(await this.#open(this.#statements, asJson, signal))
    const lines = bytes.toString().split('\n')
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
  }

  /** The result of a query, in its own format, once its first bytes have arrived. An abort breaks it. */
  async stream(statement: Statement, signal: AbortSignal): Promise<IncomingMessage> {
    return await this.#open(this.#streams, statement, signal)
  }

  async #open(
    requests: Requests,
    { settings, ...statement }: Statement,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    return await requests.open({ ...statement, settings: { ...this.#settings, ...settings } }, signal)
  }

  /** Aborts every request in flight, streamed results included, and refuses new ones. */
  async abandon(): Promise<void> {
    this.#abandoned.abort()
    this.close()
  }

  close(): void {
    this.#statements.close()
    this.#streams.close()
  }
}

/** The text of an error. If no address of a host can be reached, Node.js reports one error for each address. */
function readText(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(readText).join(', ')
  return error instanceof Error ? error.message : String(error)
}
