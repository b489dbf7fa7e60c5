import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { clientAddress } from './admission/browser-limits.js'

/** The parts of a request that say who sent it, for `Contexts`. Addresses are read only when they are needed. */
export class RequestSource {
  readonly headers: IncomingHttpHeaders
  readonly #request: FastifyRequest

  constructor(request: FastifyRequest) {
    this.#request = request
    this.headers = request.headers
  }

  get address(): string {
    return clientAddress(this.#request)
  }

  get peer(): string {
    return this.#request.socket.remoteAddress ?? ''
  }

  get timezone(): unknown {
    return (this.#request.query as { timezone?: unknown }).timezone
  }
}
