import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { LiveHeaders, LiveQuery } from '../contract/query-schemas.js'
import type { Admission } from '../http/admission/admission.js'
import { sendHeadOnly } from '../http/reply.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import type { LiveHub } from '../live/hub.js'

export interface LiveOptions {
  live: LiveHub
  admission: Pick<Admission, 'isGood'>
}

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  // Proxies must not cache, compress or buffer the stream.
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
  // A stopping service would have to wait for a connection that can be reused.
  connection: 'close',
}

/** Streams events as they become visible. */
export const live: FastifyPluginAsyncTypebox<LiveOptions> = async (app, { live, admission }) => {
  app.get(
    '/events/live',
    { config: { isEndless: true }, schema: { querystring: LiveQuery, headers: LiveHeaders } },
    async ({ projectId, grant, query, headers, method }, reply) => {
      const { event, distinct_id: distinctId, from, to } = query
      const lastEventId = headers['last-event-id'] || null
      if (method === 'HEAD') {
        const { after } = await live.findStart({ projectId, lastEventId })
        return sendHeadOnly(reply.headers({ ...HEADERS, 'x-last-event-id': after }))
      }
      const { stream, after } = await live.open({
        projectId,
        wanted: omitUndefined({ event, distinctId, from, to }),
        lastEventId,
        isAllowed: () => grant !== null && admission.isGood(grant),
      })
      // With this header, a client that loses the stream before its first event resumes where the stream began.
      reply.headers({ ...HEADERS, 'x-last-event-id': after })
      return stream
    },
  )
}
