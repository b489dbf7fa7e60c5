import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Who sends a request, as far as the proxies that are trusted know it; what they write may be no address. */
export function clientAddress({ ip, socket }: FastifyRequest): string {
  return isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip
}
