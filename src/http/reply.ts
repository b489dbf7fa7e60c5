import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { MEDIA_TYPES, type RowFormat } from '../contract/formats.js'

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

/** The fields of a JSON page's envelope as headers, for events in formats that have no envelope. */
export function rowHeaders(
  format: RowFormat,
  { next, hasMore, pending }: { next: string | null; hasMore: boolean; pending: number },
): Record<string, string> {
  return {
    'content-type': MEDIA_TYPES[format].contentType,
    'content-disposition': `attachment; filename="events.${format}"`,
    'x-has-more': String(hasMore),
    ...(next !== null && { 'x-next-cursor': next }),
    'x-pending': String(pending),
    vary: 'accept',
  }
}
