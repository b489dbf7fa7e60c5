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
    /** why it was refused or failed */
    failure: { code: ErrorCode; error: Error } | null
  }
}

export const REQUEST_ID = 'x-request-id'

/** What a client may name its request: too short to carry data, and nothing that looks like one of our keys. */
const HARMLESS_ID = /^(?![ps]k_)[\w.-]{1,64}$/

/**
 * Gives each request an id, which its answer carries, and each that was refused or failed a line in the log. No line
 * holds more of a key than its id, or a body, or a URL, which may hold either; for all others nothing is logged and nothing is made.
 */
export class RequestLog extends LogController {
  readonly #log: FastifyBaseLogger
  /** tells processes and starts apart */
  readonly #prefix = randomBytes(5).toString('hex')
  #count = 0

  constructor(log: FastifyBaseLogger) {
    super({ disableRequestLogging: true })
    this.#log = log
  }

  /** @returns the client's own id where it is short and harmless */
  idOf(raw: IncomingMessage): string {
    const given = raw.headers[REQUEST_ID]
    return typeof given === 'string' && HARMLESS_ID.test(given) ? given : this.newId()
  }

  newId(): string {
    return `${this.#prefix}-${(++this.#count).toString(36)}`
  }

  watch(server: FastifyInstance): void {
    server.decorateRequest('failure', null)
    server.addHook('onSend', (request, reply, _payload, done) => {
      this.conclude(request, reply)
      done()
    })
  }

  /** Before an answer is sent; only for one that no hook sees. */
  conclude(request: FastifyRequest, reply: FastifyReply): void {
    reply.header(REQUEST_ID, request.id)
    // Who has hung up gets no answer, and what that has cut short is no failure.
    if (reply.statusCode < 400 || reply.raw.destroyed) return
    const line = { ...describeRequest(request), status: reply.statusCode, code: request.failure?.code }
    if (reply.statusCode < 500) this.#log.info(line, 'the request was refused')
    else this.#log.error({ ...line, err: request.failure?.error }, 'the request failed')
  }

  /** @param code of the HTTP parser */
  refusedBeforeRouting(reqId: string, status: number, code: string | undefined): void {
    this.#log.info({ reqId, status, code }, 'the request was not valid HTTP')
  }

  /** An answer that was begun is cut short. */
  override streamError(error: Error, request: FastifyRequest): void {
    if ('code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE') return
    this.#log.error({ ...describeRequest(request), err: error }, 'the answer was cut short')
  }
}

function describeRequest(request: FastifyRequest): object {
  const ms = request.startedAt > 0 ? Math.round(performance.now() - request.startedAt) : undefined
  const { id, method, projectId, keyId } = request
  // Known once the key is; what is undefined is not written.
  const sender = { project: projectId || undefined, key: keyId || undefined }
  return { reqId: id, method, route: request.routeOptions.url, ...sender, ms }
}
