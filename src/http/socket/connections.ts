import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { oncePerMinute } from '../../lib/once-per-minute.js'

/** A connection and its unanswered requests. */
export interface ClientConnection {
  readonly socket: Socket
  /** the latest request; null before the first */
  request: IncomingMessage | null
  /**
   * number of requests whose response is not complete; one that is complete counts until the next turn of the event
   * loop
   */
  unanswered: number
  /** responses that wait for an earlier one on the connection */
  queued: Set<ServerResponse> | null
}

/**
 * Requests that a connection may send without waiting for their responses. A chunk of 64 KiB holds up to 3600 requests,
 * and Node calls the listener for all of them before it looks at another connection. Clients that pipeline send far
 * fewer.
 */
const MAX_PIPELINED = 256
/**
 * Limit for all connections together. Each such request holds some kilobytes, or for a file of /docs 50 KiB and the
 * open file.
 */
const MAX_PIPELINED_OF_ALL = 4096
/**
 * Unanswered requests of each connection that are not counted, so that the limit only affects clients that pipeline.
 */
const UNCOUNTED = 2

/**
 * The open connections of a server. Their requests come here first: one lookup and one listener for each, because
 * another one would cost each event a percent of this thread's time.
 *
 * Connections beyond `maxOpen` are closed immediately, which is logged once a minute. Not by Node's `maxConnections`: a
 * worker of a cluster returns those to the primary, which keeps offering them to all workers while all are full, at the
 * cost of all its CPU time.
 *
 * Connections with more than `max` unanswered requests are cut off, and those that pipeline while all connections
 * together have more than `maxOfAll`; that is logged once a minute. The remaining requests of the chunk then never
 * reach the server's listeners. A response that is complete immediately delays other connections just as much, so it
 * counts until the next turn of the event loop.
 *
 * Responses that wait for an earlier one on their connection are closed with it: Node closes only the one that is
 * being sent. Any other stream would keep its file or query open forever.
 */
export class Connections implements Iterable<ClientConnection> {
  readonly #connections = new Map<Socket, ClientConnection>()
  readonly #max: number
  readonly #maxOfAll: number
  readonly #warnOfPipelining: () => void
  /** sum over all connections of their unanswered requests beyond UNCOUNTED */
  #pipelined = 0
  /** a connection for each response that was completed in this turn of the event loop */
  #answered: ClientConnection[] = []

  /** Wraps the server's request listeners. */
  constructor(
    server: Server,
    log: FastifyBaseLogger,
    { maxOpen = Number.POSITIVE_INFINITY, max = MAX_PIPELINED, maxOfAll = MAX_PIPELINED_OF_ALL } = {},
  ) {
    this.#max = max
    this.#maxOfAll = maxOfAll
    this.#warnOfPipelining = oncePerMinute(() =>
      log.warn({ max, maxOfAll }, 'connections were closed: they had too many unanswered requests'),
    )
    const warnOfConnections = oncePerMinute(() =>
      log.warn({ max: maxOpen }, 'connections are refused: MAX_CONNECTIONS are open'),
    )
    server.on('connection', (socket: Socket) => {
      if (this.#connections.size >= maxOpen) {
        socket.destroy()
        warnOfConnections()
        return
      }
      const connection: ClientConnection = { socket, request: null, unanswered: 0, queued: null }
      this.#connections.set(socket, connection)
      socket.once('close', () => this.#close(connection))
    })
    const listeners = server.listeners('request')
    server.removeAllListeners('request')
    const connections = this
    const onClose = function (this: ServerResponse) {
      connections.#note(this)
    }
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (!this.#admit(request, response)) return
      response.on('close', onClose)
      for (const listener of listeners) listener.call(server, request, response)
    })
  }

  [Symbol.iterator](): Iterator<ClientConnection> {
    return this.#connections.values()
  }

  #admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request
    const connection = this.#connections.get(socket)
    if (!connection || socket.destroyed) return false
    const { unanswered } = connection
    if (unanswered >= this.#max || (unanswered >= UNCOUNTED && this.#pipelined >= this.#maxOfAll)) {
      socket.destroy()
      this.#warnOfPipelining()
      return false
    }
    connection.request = request
    this.#count(connection, unanswered + 1)
    if (!response.socket) {
      connection.queued ??= new Set()
      connection.queued.add(response)
    }
    return true
  }

  #count(connection: ClientConnection, unanswered: number): void {
    this.#pipelined += Math.max(unanswered, UNCOUNTED) - Math.max(connection.unanswered, UNCOUNTED)
    connection.unanswered = unanswered
  }

  /** Notes that a response is complete, or will never be. */
  #note(response: ServerResponse): void {
    const connection = this.#connections.get(response.req.socket)
    if (!connection) return
    connection.queued?.delete(response)
    if (this.#answered.push(connection) === 1) setImmediate(() => this.#forgetAnswered())
  }

  #forgetAnswered(): void {
    for (const connection of this.#answered) {
      if (connection.unanswered > 0) this.#count(connection, connection.unanswered - 1)
    }
    this.#answered = []
  }

  #close(connection: ClientConnection): void {
    this.#connections.delete(connection.socket)
    this.#count(connection, 0)
    for (const response of connection.queued ?? []) if (!response.socket) closeUnsent(response)
  }
}

/** Makes Node close a response without a socket, by giving it a closed one. */
function closeUnsent(response: ServerResponse): void {
  response.assignSocket(new Socket().destroy())
}
