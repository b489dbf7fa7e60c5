import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/**
 * Aborted when the client disconnects before the response is complete. `request.signal` does that only for requests
 * without a body: with one, it aborts at the end of the body, or never.
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
 * Responds to a HEAD whose GET is a stream of unknown length. Without a payload, Fastify would send length 0; it
 * may only be left out (RFC 9110, 8.6).
 */
export function sendHeadOnly(reply: FastifyReply): FastifyReply {
  return reply.send(Readable.from([]))
}
