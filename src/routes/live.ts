import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { LiveHeaders, LiveQuery } from '../contract/query-schemas.js'
import type { Admission } from '../http/admission/admission.js'
import { describeCalls, EXAMPLE_EVENT } from '../http/openapi/description.js'
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
  // A service that is stopping would have to wait for a reusable connection.
  connection: 'close',
}

const CALLS = describeCalls('Events', {
  followEvents: {
    schema: { querystring: LiveQuery, headers: LiveHeaders },
    config: { isEndless: true },
    summary: 'Follow events as they become visible',
    description:
      'Endless Server-Sent Events: each accepted event once it is stored, in the order of acceptance. `id` is its ' +
      '`eventId`, and `data` the event as `GET /public/events` has it, its properties byte for byte; line breaks between their ' +
      'tokens begin another `data` line. Begins with what is accepted after the call, or after the event of `Last-Event-ID`, ' +
      'which may be any earlier one, deleted or not: nothing is skipped, and nothing is repeated. A client that reads too ' +
      'slowly is cut off, and the stream ends when the key is revoked or the service stops; connect again with ' +
      '`Last-Event-ID`.',
    parameters: { event: 'signed up' },
    response: {
      type: 'event-stream',
      example: `retry: 2000\n\n: connected\n\nid: ${EXAMPLE_EVENT.eventId}\ndata: ${JSON.stringify(EXAMPLE_EVENT)}\n\n`,
    },
    headers: {
      'x-last-event-id': 'The stream begins after this id: resume with it if the stream ends before the first event.',
    },
    errors: ['overloaded'],
  },
})

/** Streams events as they become visible. */
export const live: FastifyPluginAsyncTypebox<LiveOptions> = async (app, { live, admission }) => {
  app.get('/events/live', CALLS.followEvents, async ({ projectId, grant, query, headers, method }, reply) => {
    const { event, distinct_id: distinctId, session_id: sessionId, from, to } = query
    const lastEventId = headers['last-event-id'] || null
    if (method === 'HEAD') {
      const { after } = await live.findStart({ projectId, lastEventId })
      return sendHeadOnly(reply.headers({ ...HEADERS, 'x-last-event-id': after }))
    }
    const { stream, after } = await live.open({
      projectId,
      wanted: omitUndefined({ event, distinctId, sessionId, from, to }),
      lastEventId,
      isAllowed: () => grant !== null && admission.isGood(grant),
    })
    // With this header, a client that loses the stream before its first event resumes where the stream began.
    reply.headers({ ...HEADERS, 'x-last-event-id': after })
    return stream
  })
}
