import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/**
 * Aborted when the client closes the connection before the response is complete. `request.signal` says so only of requests
 * without a body: that of others aborts with the end of it, or never.
 */
export function hangUpSignal({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController()
  raw.once('close', () => {
    if (!raw.writableFinished) controller.abort()
  })
  if (raw.closed && !raw.writableFinished) controller.abort()
  return controller.signal
}

/**
 * Responds to a HEAD whose GET is a stream of unknown length. Without a payload, Fastify would say that the length is 0; it
 * may only be left out (RFC 9110, 8.6).
 */
export function sendHeadOnly(reply: FastifyReply): FastifyReply {
  return reply.send(Readable.from([]))
}
