import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { keptBatch, keptEvent } from '../event-body.js'
import { eventIdFormatter } from '../event-id.js'
import type { GroupCommit } from '../journal/group-commit.js'
import type { Journal } from '../journal/journal.js'
import { requestKeyOf } from '../request-key.js'
import { Accepted, BatchBody, Done, TrackBody } from '../schemas.js'

export interface TrackOptions {
  journal: Journal
  commits: GroupCommit
  /** bytes */
  batchBodyLimit: number
}

/** Takes events in. A call is answered once its events are durable in the journal. */
export const track: FastifyPluginAsyncTypebox<TrackOptions> = async (app, { journal, commits, batchBodyLimit }) => {
  const idOf = eventIdFormatter(journal.id)

  app.post('/track', { schema: { body: TrackBody, response: { 200: Done } } }, async (request, reply) => {
    const { projectId, key, rawBody, body } = request
    const requestKey = requestKeyOf(request)
    const kept = keptEvent(rawBody, body, key)
    const place = requestKey
      ? await commits.appendKeyedEvent(projectId, kept, requestKey)
      : await commits.appendEvent(projectId, kept)
    reply.header('x-event-id', idOf(place))
    return { status: 1, error: null } as const
  })

  app.post(
    '/track/batch',
    { bodyLimit: batchBodyLimit, schema: { body: BatchBody, response: { 200: Accepted } } },
    async (request) => {
      const { projectId, key, rawBody, body } = request
      const requestKey = requestKeyOf(request)
      const kept = keptBatch(rawBody, body.events, key)
      await commits.appendBatch(projectId, kept, body.events.length, requestKey)
      return { status: 1, error: null, accepted: body.events.length } as const
    },
  )
}
