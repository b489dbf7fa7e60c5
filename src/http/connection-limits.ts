import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'

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
  /** to read a response that streams from ClickHouse, as it holds a connection there, beside the time by `responseRate` */
  responseMs: number
  /** bytes of such a response that give its reader another second: an export may take hours, if it is read */
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
  // Half a megabit per second, which any line has.
  responseRate: 65_536,
  checkMs: 5_000,
}

const DROP_LOG_INTERVAL_MS = 60_000

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
    else payload.destroy(new Error(`only ${read} bytes of the response were read in ${responseMs} ms and more`))
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

/** Closes connections beyond `max` at once, and logs it once a minute. */
export function limitConnections(server: Server, max: number, log: FastifyBaseLogger): void {
  server.maxConnections = max
  const warn = oncePerMinute(() => log.warn({ max }, 'connections are refused: MAX_CONNECTIONS are open'))
  server.on('drop', warn)
}

/**
 * Closes the responses that wait for another one of their connection when it ends: Node closes only the one that is being
 * sent. A stream that any other one was to send would keep its file or query for ever.
 */
export function closeQueuedResponses(server: Server): void {
  const queued = new WeakMap<Socket, Set<ServerResponse>>()
  server.on('connection', (socket) => {
    socket.once('close', () => {
      for (const response of queued.get(socket) ?? []) if (!response.socket) closeUnsent(response)
    })
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    if (response.socket) return
    const responses = queued.get(socket) ?? new Set()
    queued.set(socket, responses.add(response))
    response.once('close', () => responses.delete(response))
  })
}

/** Has Node close a response that has no socket, by one that is closed. */
function closeUnsent(response: ServerResponse): void {
  response.assignSocket(new Socket().destroy())
}

/**
 * Requests that a connection may send without waiting for their responses. A chunk of 64 KiB holds up to 3600 requests,
 * and Node calls the listener for all of them before it looks at another connection. Clients that pipeline send far fewer.
 */
const MAX_PIPELINED = 256
/** Of all connections together. Each such request holds some kilobytes, or one for a file of /docs 50 KiB and the open file. */
const MAX_PIPELINED_OF_ALL = 4096
/** Unanswered requests of each connection that do not count in the sum, so that it concerns only clients that pipeline. */
const UNCOUNTED = 2

/**
 * Cuts off connections with more than `max` unanswered requests, and those that pipeline while all connections together
 * have more than `maxOfAll`; logs it once a minute. Wraps the listeners that the server has for requests, so the remaining
 * requests of the chunk never reach them. A response counts until the next turn of the event loop: one that is complete at
 * once delays other connections just as much.
 */
export function limitPipelining(
  server: Server,
  log: FastifyBaseLogger,
  { max = MAX_PIPELINED, maxOfAll = MAX_PIPELINED_OF_ALL } = {},
): void {
  const unanswered = new WeakMap<Socket, number>()
  let ofAll = 0
  const add = (socket: Socket, n: number) => {
    const before = unanswered.get(socket) ?? 0
    unanswered.set(socket, before + n)
    ofAll += Math.max(before + n, UNCOUNTED) - Math.max(before, UNCOUNTED)
  }
  let answered: Socket[] = []
  const forget = () => {
    for (const socket of answered) add(socket, -1)
    answered = []
  }
  const warn = oncePerMinute(() =>
    log.warn({ max, maxOfAll }, 'connections are cut off: they have too many unanswered requests'),
  )
  const listeners = server.listeners('request')
  server.removeAllListeners('request')
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    if (socket.destroyed) return
    const before = unanswered.get(socket) ?? 0
    if (before >= max || (before >= UNCOUNTED && ofAll >= maxOfAll)) {
      socket.destroy()
      warn()
      return
    }
    add(socket, 1)
    response.once('close', () => {
      if (answered.push(socket) === 1) setImmediate(forget)
    })
    for (const listener of listeners) listener.call(server, request, response)
  })
}

function oncePerMinute(warn: () => void): () => void {
  let silentUntil = 0
  return () => {
    if (Date.now() < silentUntil) return
    silentUntil = Date.now() + DROP_LOG_INTERVAL_MS
    warn()
  }
}
