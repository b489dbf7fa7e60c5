import { randomUUID } from 'node:crypto'
import { TallyhouseError } from './errors.js'
import { CALL_RETRY, mayBeDone, type RetryPolicy, retry } from './retry.js'
import { startTimer } from './timer.js'

export interface ConnectionOptions {
  /**
   * address of the service, such as `https://tallyhouse.example.com`; may have a path, to which
   * `/public` is appended
   */
  url: string
  /** the project's secret key; a read key is enough for reads and questions */
  secretKey: string
  /** timeout of one attempt, in milliseconds; default 30 000, because a read may wait 5 s for the store */
  timeoutMs?: number
  /** how a call is retried; default: 8 attempts within half a minute */
  retry?: Partial<RetryPolicy>
  /** called before each retry, with the reason */
  onRetry?: (error: TallyhouseError) => void
  /** replaces the global `fetch` */
  fetch?: Fetch
}

/** The part of `fetch` that the client uses. */
export type Fetch = (
  url: string,
  init: {
    method: string
    headers: Record<string, string>
    body?: string | Uint8Array<ArrayBuffer>
    redirect: 'manual'
    signal: AbortSignal
  },
) => Promise<FetchResponse>

/** The part of a response that the client uses. */
export interface FetchResponse extends Pick<Response, 'status' | 'text'> {
  headers: FetchHeaders
  body: FetchBody | null
}

/** The part of `Headers` that the client uses. */
export type FetchHeaders = Pick<Headers, 'get'>

/** The part of a `ReadableStream` that the client uses. */
interface FetchBody {
  getReader(): { read(): Promise<{ done: boolean; value?: Uint8Array | undefined }> }
}

export interface Call {
  method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** starts with `/public`; includes the query */
  path: string
  /** JSON, unless `headers` have another type; every attempt sends the same bytes */
  body?: string | Uint8Array<ArrayBuffer>
  /** 1 to 255 characters; makes retries of `/track`, `/track/batch`, `/import` and `/users/profile` safe */
  idempotencyKey?: string
  headers?: Record<string, string>
  /** timeout of one attempt, if it is longer than the connection's */
  timeoutMs?: number
}

export interface CallOptions {
  /** aborts the call, even between two attempts */
  signal?: AbortSignal | undefined
}

export interface CallResult {
  /** the body, parsed */
  value: Record<string, unknown>
  /** the unparsed body, in which numbers keep their exact spelling */
  text: string
  headers: FetchHeaders
}

/** A response without an envelope that is still being received. */
export interface RowStream {
  headers: FetchHeaders
  chunks: AsyncGenerator<Uint8Array, void, undefined>
}

/** A response that is still being received. */
interface OpenStream {
  headers: FetchHeaders
  lines: AsyncGenerator<string, void, undefined>
}

const TIMEOUT_MS = 30_000
/** The service sends something on a live stream at least every 20 s. */
const SILENCE_MS = 45_000

/** Makes calls with the secret key, and retries transient failures. */
export class Connection {
  readonly #url: string
  readonly #key: string
  readonly #timeoutMs: number
  readonly #retry: RetryPolicy
  readonly #onRetry: ConnectionOptions['onRetry']
  readonly #fetch: Fetch

  /** @throws TypeError if the URL or the key cannot be used */
  constructor(options: ConnectionOptions) {
    const { url, secretKey, timeoutMs = TIMEOUT_MS, retry = {}, onRetry, fetch = globalThis.fetch } = options
    if (!URL.canParse(url) || !/^https?:/.test(url)) {
      throw new TypeError('url must be the address of the service, such as https://tallyhouse.example.com')
    }
    if (typeof secretKey !== 'string' || secretKey === '') {
      throw new TypeError('secretKey must be the secret key of the project')
    }
    if (secretKey.startsWith('pk_')) {
      throw new TypeError('secretKey is a public key, which is for browsers; a server needs the secret key')
    }
    this.#url = url.replace(/\/+$/, '')
    this.#key = secretKey
    this.#timeoutMs = timeoutMs
    this.#retry = { ...CALL_RETRY, ...retry }
    this.#onRetry = onRetry
    this.#fetch = fetch
  }

  /**
   * @param policy overrides the connection's own
   * @throws TallyhouseError for anything but a success of the service
   */
  async call(call: Call, { signal }: CallOptions = {}, policy = this.#retry): Promise<CallResult> {
    return await retry(() => this.#attempt(call, signal, readResult), policy, signal, this.#onRetry)
  }

  /**
   * Deletes the resource at the path. If an earlier attempt may have deleted it and its response was lost,
   * `not_found` counts as success.
   * @throws TallyhouseError like `call`
   */
  async delete(path: string, { signal }: CallOptions = {}): Promise<void> {
    let mayBeDeleted = false
    const attempt = async () => {
      try {
        await this.#attempt({ method: 'DELETE', path }, signal, readResult)
      } catch (error) {
        if (mayBeDeleted && error instanceof TallyhouseError && error.code === 'not_found') return
        mayBeDeleted ||= mayBeDone(error)
        throw error
      }
    }
    await retry(attempt, this.#retry, signal, this.#onRetry)
  }

  /**
   * Opens a stream of rows that have no envelope, such as `/export`, in one attempt. Its chunks fail like `lines` if
   * the response breaks off or stalls.
   * @throws TallyhouseError
   */
  async rows(call: Call, { signal }: CallOptions = {}): Promise<RowStream> {
    const end = new AbortController()
    const { body, headers } = await this.#attempt(call, signal, readRows, end)
    const silentMs = Math.max(this.#timeoutMs, call.timeoutMs ?? 0)
    return { headers, chunks: readChunks(body, { end, signal, silentMs }) }
  }

  /**
   * Streams the lines of an NDJSON response. It is retried like `call` until its first byte has arrived.
   * @throws TallyhouseError; `network` if the response breaks off, `timeout` if it stalls for the timeout of an
   * attempt
   */
  async *lines(call: Call, { signal }: CallOptions = {}): AsyncGenerator<string, void, undefined> {
    const open = () => this.#open(call, signal, 'application/x-ndjson', this.#timeoutMs)
    yield* (await retry(open, this.#retry, signal, this.#onRetry)).lines
  }

  /**
   * Opens a live stream, in one attempt.
   * @throws TallyhouseError; reading the lines throws like `lines`
   */
  async eventStream(call: Call, { signal }: CallOptions = {}): Promise<OpenStream> {
    return await this.#open(call, signal, 'text/event-stream', SILENCE_MS)
  }

  async #open(call: Call, signal: AbortSignal | undefined, type: string, silentMs: number): Promise<OpenStream> {
    const end = new AbortController()
    const { body, headers } = await this.#attempt(call, signal, (response) => readStream(response, type), end)
    return { headers, lines: readLines(body, { end, signal, silentMs }) }
  }

  async #attempt<T>(
    { method, path, body, idempotencyKey, headers, timeoutMs = 0 }: Call,
    signal: AbortSignal | undefined,
    read: (response: FetchResponse) => Promise<T>,
    end = new AbortController(),
  ): Promise<T> {
    const abort = () => end.abort(aborted(signal))
    const limitMs = Math.max(this.#timeoutMs, timeoutMs)
    const timer = startTimer(() => end.abort(timedOut(limitMs)), limitMs)
    if (signal?.aborted) abort()
    signal?.addEventListener('abort', abort)
    try {
      const send = this.#fetch
      const response = await send(this.#url + path, {
        method,
        headers: {
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
          'x-api-key': this.#key,
          ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
        },
        ...(body !== undefined && { body }),
        // A redirect could carry the key to another host.
        redirect: 'manual',
        signal: end.signal,
      })
      return await read(response)
    } catch (error) {
      if (error instanceof TallyhouseError) throw error
      if (end.signal.aborted) throw end.signal.reason
      throw new TallyhouseError('network', 'The service is unavailable, or the connection broke.', { cause: error })
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }
}

/** Makes a POST that is safe to retry: its idempotency key makes the service carry it out once. */
export function idempotentPost(path: string, body: string): Call {
  return { method: 'POST', path, body, idempotencyKey: randomUUID() }
}

/** Accepts only a success of Tallyhouse itself: a proxy that responds with 200 has stored nothing. */
async function readResult(response: FetchResponse): Promise<CallResult> {
  const { status, headers } = response
  const text = await response.text()
  const value = parseObject(text)
  if (status === 200 && value?.status === 1) return { value, text, headers }
  throw refusal(response, value)
}

function refusal({ status, headers }: FetchResponse, value: Record<string, unknown> | null): TallyhouseError {
  const context = { status, requestId: headers.get('x-request-id'), retryAfterMs: retryAfterMs(headers) }
  if (value && typeof value.code === 'string' && typeof value.error === 'string') {
    const details = Array.isArray(value.details) ? value.details : []
    return new TallyhouseError(value.code, value.error, { ...context, details })
  }
  return new TallyhouseError(
    'unexpected_answer',
    `The response, with status ${status}, does not come from Tallyhouse. Check the url and the proxies in front of the service.`,
    context,
  )
}

async function readRows(response: FetchResponse): Promise<{ body: FetchBody | null; headers: FetchHeaders }> {
  const { status, headers, body } = response
  // Only Tallyhouse sends this header.
  if (status !== 200 || headers.get('x-has-more') === null) throw refusal(response, parseObject(await response.text()))
  return { body, headers }
}

async function readStream(response: FetchResponse, type: string): Promise<{ body: FetchBody; headers: FetchHeaders }> {
  const { status, headers, body } = response
  if (status === 200 && headers.get('content-type')?.startsWith(type) && body !== null) return { body, headers }
  throw refusal(response, parseObject(await response.text()))
}

interface BodyReading {
  /** ends the request */
  end: AbortController
  signal: AbortSignal | undefined
  /** maximum time without data, in milliseconds */
  silentMs: number
}

async function* readLines(body: FetchBody, reading: BodyReading): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of readChunks(body, reading)) {
    const parts = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n')
    rest = parts.pop() ?? ''
    yield* parts
  }
}

/** @param body null for a response without one, such as to a HEAD */
async function* readChunks(
  body: FetchBody | null,
  { end, signal, silentMs }: BodyReading,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (body === null) return
  const abort = () => end.abort(aborted(signal))
  if (signal?.aborted) abort()
  signal?.addEventListener('abort', abort)
  try {
    const reader = body.getReader()
    for (;;) {
      const timer = startTimer(() => end.abort(timedOut(silentMs)), silentMs)
      const { done, value } = await reader.read().finally(() => clearTimeout(timer))
      if (done) return
      if (value) yield value
    }
  } catch (error) {
    if (end.signal.reason instanceof TallyhouseError) throw end.signal.reason
    throw new TallyhouseError('network', 'The response broke off and is incomplete.', { cause: error })
  } finally {
    signal?.removeEventListener('abort', abort)
    end.abort()
  }
}

function aborted(signal: AbortSignal | undefined): TallyhouseError {
  return new TallyhouseError('aborted', 'The call was aborted.', { cause: signal?.reason })
}

function timedOut(ms: number): TallyhouseError {
  return new TallyhouseError('timeout', `No response came within ${ms} ms.`)
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}

/** Reads `Retry-After`: seconds or a date (RFC 9110, 10.2.3). */
function retryAfterMs(headers: FetchHeaders): number | null {
  const text = headers.get('retry-after')
  if (text === null) return null
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return ms >= 0 ? ms : null
}
