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
