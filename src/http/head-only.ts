import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/**
 * Responds to a HEAD whose GET is a stream of unknown length. Without a payload, Fastify would say that the length is 0; it
 * may only be left out (RFC 9110, 8.6).
 */
export function sendHeadOnly(reply: FastifyReply): FastifyReply {
  return reply.send(Readable.from([]))
}
