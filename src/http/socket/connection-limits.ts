import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** a successful response lasts until its client disconnects, and has its own limits for slow clients */
    isEndless?: boolean
  }
}

/**
 * How long a client may take, in ms. A slower client is cut off, so that it cannot hold resources
 * that others need.
 */
export interface ClientLimits {
  /** to send a request's headers */
  headersMs: number
  /** to send a whole request */
  requestMs: number
  /** between two chunks of a large body */
  bodyIdleMs: number
  /** to send a large body whose key is unknown */
  unknownBodyMs: number
  /**
   * without a byte in either direction while a request is open; longer than any response takes to
   * begin
   */
  idleMs: number
  /**
   * time to read a response that streams from ClickHouse and so holds a connection there; added to what
   * `responseRate` allows
   */
  responseMs: number
  /**
   * bytes of such a response that earn its reader another second: an export may take hours if its client keeps reading
   */
  responseRate: number
  /** how often the first two are checked */
  checkMs: number
}

export const CLIENT_LIMITS: ClientLimits = {
  headersMs: 30_000,
  requestMs: 120_000,
  bodyIdleMs: 30_000,
  unknownBodyMs: 20_000,
  idleMs: 120_000,
  responseMs: 300_000,
  // 0.5 Mbit/s; any connection is faster.
  responseRate: 65_536,
  checkMs: 5_000,
}

/** The limits that Node itself enforces, as options of Fastify. */
export function serverLimits({ headersMs, requestMs, idleMs, checkMs }: ClientLimits) {
  return {
    connectionTimeout: idleMs,
    requestTimeout: requestMs,
    http: { headersTimeout: headersMs, connectionsCheckingInterval: checkMs },
  }
}

/**
 * Sends the 408 that Node sends for a request that does not arrive in time, and closes the
 * connection.
 */
export function timeOut(socket: Socket, server: Server): void {
  const error = Object.assign(new Error('the body stalled'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  server.emit('clientError', error, socket)
}

/**
 * Ends a response that is not read in time. Once it has begun it can only be truncated, which the
 * client detects.
 */
export function endUnreadResponse(payload: Readable, { raw }: FastifyRequest, limits: ClientLimits): void {
  const { responseMs, responseRate } = limits
  const { socket } = raw
  const startedAt = performance.now()
  const before = socket.bytesWritten ?? 0
  let timer: NodeJS.Timeout
  const waitFor = (ms: number) => {
    timer = setTimeout(check, ms).unref()
  }
  const check = () => {
    const read = (socket.bytesWritten ?? 0) - before
    const left = startedAt + responseMs + (read / responseRate) * 1000 - performance.now()
    if (left > 0) waitFor(left)
    else payload.destroy(new Error(`only ${read} bytes of the response were read in over ${responseMs} ms`))
  }
  waitFor(responseMs)
  payload.once('close', () => clearTimeout(timer))
}

/**
 * Resets the connection of a truncated HTTP/1.0 response. With HTTP/1.0 the end of the connection
 * ends the response, so a truncated one would look complete; a reset tells a proxy that speaks 1.0
 * to the service not to complete it either.
 */
export function resetBrokenResponse(payload: Readable, { raw }: FastifyRequest): void {
  if (raw.httpVersion !== '1.0') return
  payload.once('error', () => raw.socket.resetAndDestroy())
}
