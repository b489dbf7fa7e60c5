import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { clientAddress } from './admission/browser-limits.js'

/** What says who sent a request, as `Contexts` reads it. */
export function readSource(request: FastifyRequest): {
  headers: IncomingHttpHeaders
  address: string
  peer: string
  timezone: unknown
} {
  const { timezone } = request.query as { timezone?: unknown }
  return {
    headers: request.headers,
    address: clientAddress(request),
    peer: request.socket.remoteAddress ?? '',
    timezone,
  }
}
