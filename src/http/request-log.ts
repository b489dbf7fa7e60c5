import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import type { ErrorCode } from '../contract/errors.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** why the request was refused or failed; null while it is neither */
    failure: { code: ErrorCode; error: Error } | null
  }
}

export const REQUEST_ID = 'x-request-id'

/** Ids that a client may set: too short to carry data, and unlike our keys. */
const ACCEPTED_ID = /^(?![prsw]k_)[\w.-]{1,64}$/

const UNKNOWN: Sender = { projectId: '', keyId: '' }

/**
 * Gives each request an id, which the response returns, and logs the requests that were refused or
 * failed, within the limits of `LogLimit`. No line contains a key (only its id), a body, or a URL,
 * which may contain either. A successful request logs and allocates nothing.
 */
export class RequestLog extends LogController {
  readonly #log: FastifyBaseLogger
  /** differs for each process and each restart */
  readonly #prefix = randomBytes(5).toString('hex')
  #count = 0
  /** separate limits, so a flood of refusals cannot suppress failures */
  readonly #refused: LogLimit
  readonly #failed: LogLimit

  constructor(log: FastifyBaseLogger) {
    super({ disableRequestLogging: true })
    this.#log = log
    this.#refused = new LogLimit((left) => log.info(describeLeftOut(left), 'more requests were refused'))
    this.#failed = new LogLimit((left) => log.error(describeLeftOut(left), 'more requests failed'))
  }

  /** @returns the client's own id if it is acceptable, otherwise a new one */
  chooseId(raw: IncomingMessage): string {
    const given = raw.headers[REQUEST_ID]
    return typeof given === 'string' && ACCEPTED_ID.test(given) ? given : this.newId()
  }

  newId(): string {
    return `${this.#prefix}-${(++this.#count).toString(36)}`
  }

  watch(server: FastifyInstance): void {
    server.addHook('onSend', (request, reply, _payload, done) => {
      this.conclude(request, reply)
      done()
    })
    server.addHook('onClose', async () => {
      this.#refused.end()
      this.#failed.end()
    })
  }

  /** Logs a response before it is sent. Call it only for responses that run no hook. */
  conclude(request: FastifyRequest, reply: FastifyReply): void {
    reply.header(REQUEST_ID, request.id)
    // A client that has disconnected gets no response, and work that its disconnect interrupted is not a failure.
    const { statusCode: status } = reply
    if (status < 400 || reply.raw.destroyed) return
    const code = request.failure?.code
    const limit = status < 500 ? this.#refused : this.#failed
    // A request whose URL the router cannot parse has no decorations.
    if (!limit.allows(request.keyId ? request : UNKNOWN, code ?? String(status))) return
    const line = { ...describeRequest(request), status, code }
    if (status < 500) this.#log.info(line, 'the request was refused')
    else this.#log.error({ ...line, err: request.failure?.error }, 'the request failed')
  }

  /** @param code of the HTTP parser */
  refusedBeforeRouting(reqId: string, status: number, code: string | undefined): void {
    if (!this.#refused.allows(UNKNOWN, code ?? String(status))) return
    this.#log.info({ reqId, status, code }, 'the request was not valid HTTP')
  }

  /** Logs a response that was truncated after it had begun. */
  override streamError(error: Error, request: FastifyRequest): void {
    if ('code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE') return
    this.#log.error({ ...describeRequest(request), err: error }, 'the response was truncated')
  }
}

function describeRequest(request: FastifyRequest): object {
  const ms = request.startedAt > 0 ? Math.round(performance.now() - request.startedAt) : undefined
  const { id, method } = request
  return { reqId: id, method, route: request.routeOptions.url, ...describeSender(request), ms }
}

function describeSender({ projectId, keyId }: Sender): object {
  // Both are empty until the key is known, and undefined fields are not logged.
  return { project: projectId || undefined, key: keyId || undefined }
}

function describeLeftOut({ count, codes, ...sender }: LeftOut): object {
  return { ...describeSender(sender), count, codes }
}

/** Lines about the requests of one sender in a window. */
const MAX_LINES = 100
const WINDOW_MS = 10_000

/** The sender: one key, or all requests without a known key together (both fields empty). */
export interface Sender {
  projectId: string
  keyId: string
}

interface Count {
  sender: Sender
  lines: number
  /** omitted lines, by code */
  left: Map<string, number>
}

/** The number of lines that were omitted from the log in a window. */
export interface LeftOut extends Sender {
  count: number
  codes: Record<string, number>
}

/**
 * Limits the log lines about requests for each sender: any client that reaches the service can send requests that
 * are refused, and a line for each would fill the disk. Omitted lines are counted and reported at the end of the
 * window.
 */
export class LogLimit {
  readonly #report: (left: LeftOut) => void
  readonly #maxLines: number
  readonly #windowMs: number
  /** by key; known keys are few, and all others are one sender */
  readonly #counts = new Map<string, Count>()
  #timer: NodeJS.Timeout | undefined

  constructor(report: (left: LeftOut) => void, { maxLines = MAX_LINES, windowMs = WINDOW_MS } = {}) {
    this.#report = report
    this.#maxLines = maxLines
    this.#windowMs = windowMs
  }

  /** @returns whether the line may be written; if not, it is counted */
  allows({ projectId, keyId }: Sender, code: string): boolean {
    this.#timer ??= setTimeout(() => this.end(), this.#windowMs).unref()
    const count = this.#counts.get(keyId) ?? { sender: { projectId, keyId }, lines: 0, left: new Map<string, number>() }
    this.#counts.set(keyId, count)
    if (++count.lines <= this.#maxLines) return true
    count.left.set(code, (count.left.get(code) ?? 0) + 1)
    return false
  }

  /** Ends the window, and reports what was omitted. */
  end(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const counts = [...this.#counts.values()]
    this.#counts.clear()
    for (const { sender, lines, left } of counts) {
      if (left.size > 0) this.#report({ ...sender, count: lines - this.#maxLines, codes: Object.fromEntries(left) })
    }
  }
}
