import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../../contract/errors.js'
import { oncePerMinute } from '../../lib/once-per-minute.js'
import { refuseLongHead, sendError } from '../error-handler.js'
import type { ClientConnection, Connections } from './connections.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** whether the query may be longer than `MAX_HEAD` because it holds what others send in a body */
    hasLongQuery?: boolean
  }
}

/** Bytes of a URL and headers together, for most calls. */
const MAX_HEAD = 16 * 1024

/**
 * Bytes of a URL and headers that the parser accepts. Mixpanel's SDK for Node.js sends an event in the URL of a GET,
 * and 100 kB of properties make 134 kB of it. The parser knows no routes, so this holds for all of them, and before a
 * key can be known: any client can make the process hold that much for each connection. Three things bound it.
 * `HeadWatch` bounds the sum of unfinished heads; `limitHeads` refuses a long head once it is complete, unless its
 * route needs it; and the router does not parse a long query (`routedUrl`).
 */
export const MAX_PARSED_HEAD = 256 * 1024

/** Maximum number of headers. Node silently drops those beyond some 2000, so counting their bytes is not enough. */
const MAX_HEADERS = 1_000

/** The URL used for routing. A long query is dropped: parsing it would cost time before any check. */
export function routedUrl({ url = '/' }: Pick<IncomingMessage, 'url'>): string {
  if (url.length <= MAX_HEAD) return url
  const path = parsePath(url)
  return path.length <= MAX_HEAD ? path : '/'
}

/**
 * Refuses requests whose URL and headers are over `MAX_HEAD`. The query of a route with `hasLongQuery` does not count.
 */
export function limitHeads(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (!isShort(request)) refuseLongHead(request, reply)
    else if (hasTwoHosts(request.raw)) sendError(twoHosts(), request, reply)
    else done()
  })
}

function isShort(request: FastifyRequest): boolean {
  const { originalUrl } = request
  const { rawHeaders } = request.raw
  let length = originalUrl.length
  for (const text of rawHeaders) length += text.length
  if (length > MAX_HEAD && request.routeOptions.config.hasLongQuery) {
    length -= originalUrl.length - parsePath(originalUrl).length
  }
  return length <= MAX_HEAD && rawHeaders.length < 2 * MAX_HEADERS
}

/** Proxies and servers may each use a different one of two values, and so see different requests. */
export function hasTwoHosts({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  return hosts > 1
}

function twoHosts(): ApiError {
  return new ApiError('invalid_request', 'The request has two Host headers. Send one.')
}

function parsePath(url: string): string {
  return url.split('?', 1)[0] ?? ''
}

/** Bytes of unfinished long heads that a process holds: 128 of the longest. */
const HEADS_BYTES = 32 * 1024 * 1024
const CHECK_MS = 250

/** The state of a connection at the last check. */
interface Seen {
  request: IncomingMessage | null
  /** bytes received when the next head began, if the checks have seen it */
  start: number
}

/**
 * Bounds the memory of incomplete heads: when those over `MAX_HEAD` together hold more than HEADS_BYTES, the longest
 * are cut off. Bytes that arrive between two checks are not bounded.
 */
export class HeadWatch {
  readonly #connections: Connections
  readonly #seen = new WeakMap<ClientConnection, Seen>()
  readonly #maxBytes: number
  readonly #warn: (count: number) => void

  constructor(
    server: Server,
    connections: Connections,
    log: FastifyBaseLogger,
    { maxBytes = HEADS_BYTES, checkMs = CHECK_MS } = {},
  ) {
    this.#connections = connections
    this.#maxBytes = maxBytes
    this.#warn = oncePerMinute((count) => {
      log.warn({ count }, 'connections were closed: too many long URLs and headers are being received')
    })
    const timer = setInterval(() => this.#check(), checkMs).unref()
    server.on('close', () => clearInterval(timer))
  }

  #check(): void {
    const heads: [bytes: number, socket: Socket][] = []
    let sum = 0
    for (const connection of this.#connections) {
      const bytes = this.#headBytes(connection)
      if (bytes <= MAX_HEAD) continue
      heads.push([bytes, connection.socket])
      sum += bytes
    }
    if (sum <= this.#maxBytes) return
    heads.sort(([a], [b]) => b - a)
    let count = 0
    for (const [bytes, socket] of heads) {
      if (sum <= this.#maxBytes) break
      sum -= bytes
      count++
      socket.destroy()
    }
    this.#warn(count)
  }

  /** Bytes of the head that a connection is receiving; 0 while it receives a body. */
  #headBytes(connection: ClientConnection): number {
    const { request, socket } = connection
    const seen = this.#seen.get(connection) ?? { request: null, start: 0 }
    this.#seen.set(connection, seen)
    if (request !== seen.request || request?.complete === false) {
      seen.request = request
      seen.start = socket.bytesRead
    }
    return socket.bytesRead - seen.start
  }
}
