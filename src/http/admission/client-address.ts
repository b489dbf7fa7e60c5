import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/**
 * The address of the client, as trusted proxies report it; that of the socket if what they report
 * is no address.
 */
export function clientAddress({ ip, socket }: FastifyRequest): string {
  return isIP(ip) === 0 ? (socket.remoteAddress ?? '') : ip
}
