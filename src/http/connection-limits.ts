import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'

/** How long a client may take, in ms. Who takes longer is cut off, so that nobody holds what others wait for. */
export interface ClientLimits {
  /** to send a request's headers */
  headersMs: number
  /** to send a whole request */
  requestMs: number
  /** without a byte of a body that is large, and has begun to come */
  bodyIdleMs: number
  /** to send such a body, where its key is not known */
  unknownBodyMs: number
  /** without a byte in either direction while a request is open; longer than any answer takes to begin */
  idleMs: number
  /** to read an answer that comes from ClickHouse, a connection to which it holds */
  answerMs: number
  /** how often the first two are looked at */
  checkMs: number
}

export const CLIENT_LIMITS: ClientLimits = {
  headersMs: 30_000,
  requestMs: 120_000,
  bodyIdleMs: 30_000,
  unknownBodyMs: 20_000,
  idleMs: 120_000,
  answerMs: 300_000,
  checkMs: 5_000,
}

const DROPS_LOGGED_EVERY_MS = 60_000

/** The limits that Node itself keeps, as settings of Fastify. */
export function serverLimits({ headersMs, requestMs, idleMs, checkMs }: ClientLimits) {
  return {
    connectionTimeout: idleMs,
    requestTimeout: requestMs,
    http: { headersTimeout: headersMs, connectionsCheckingInterval: checkMs },
  }
}

/** Answers a request as Node does one that does not arrive in time, and ends its connection. */
export function timeOut(socket: Socket, server: Server): void {
  const error = Object.assign(new Error('the body stopped coming'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  server.emit('clientError', error, socket)
}

/** Ends an answer that is not read in time. One that has begun can only be cut off, which a client notices. */
export function cutOffSlowReader(payload: unknown, { answerMs }: ClientLimits): void {
  if (!(payload instanceof Readable)) return
  const cutOff = () => payload.destroy(new Error(`the answer was not read within ${answerMs} ms`))
  const timer = setTimeout(cutOff, answerMs).unref()
  payload.once('close', () => clearTimeout(timer))
}

/**
 * An answer to HTTP/1.0 is over where its connection ends, so one that is cut short would look whole there. A reset does
 * not; a proxy that speaks 1.0 to the service sees by it that it must not complete what it passes on.
 */
export function resetBrokenAnswer(payload: unknown, { raw }: FastifyRequest): void {
  if (!(payload instanceof Readable) || raw.httpVersion !== '1.0') return
  payload.once('error', () => raw.socket.resetAndDestroy())
}

/** Further connections are closed at once. */
export function limitConnections(server: Server, max: number, log: FastifyBaseLogger): void {
  server.maxConnections = max
  let silentUntil = 0
  server.on('drop', () => {
    if (Date.now() < silentUntil) return
    silentUntil = Date.now() + DROPS_LOGGED_EVERY_MS
    log.warn({ max }, 'connections are refused, as MAX_CONNECTIONS are open')
  })
}
