import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { MAX_BATCH } from '../contract/limits.js'
import { Accepted, BatchBody, Done, TrackBody } from '../contract/schemas.js'
import { idempotencyKeyOf } from '../http/idempotency-key.js'
import type { Journal } from '../journal/journal.js'
import { MAX_BATCH_WEIGHT } from '../json/complexity.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { eventIdFormatter } from '../model/event-id.js'
import { scanBatch, scanEvent } from '../model/scan.js'
import { ScannedBody } from '../model/scanned-body.js'
import { verbatimBatch, verbatimEvent } from '../model/verbatim.js'
import type { GroupCommit } from '../pipeline/group-commit.js'

/**
 * In bytes. A smaller event is cheaper outside the pool: it is copied into an entry while it is
 * still young garbage.
 */
const MIN_POOLED_EVENT = 4 * 1024

export interface TrackOptions {
  journal: Journal
  /** has the bodies of requests */
  buffers: BufferPool
  commits: GroupCommit
  limits: {
    /** bytes */
    BATCH_BODY_LIMIT: number
    /** levels of objects and arrays, including the properties object itself */
    MAX_PROPERTY_DEPTH: number
  }
}

/** Ingests events. The response follows once the events are durable in the journal. */
export const track: FastifyPluginAsyncTypebox<TrackOptions> = async (
  app,
  { journal, buffers, commits, limits: { BATCH_BODY_LIMIT: bodyLimit, MAX_PROPERTY_DEPTH: maxPropertyDepth } },
) => {
  const idOf = eventIdFormatter(journal.id)
  /** A body that was rewritten is read no more; one stored verbatim belongs to the group commit. */
  const releaseUnless = (stored: Buffer, rawBody: Buffer) => {
    if (stored !== rawBody) buffers.release(rawBody)
  }

  const scanOne = (raw: Buffer) => scanEvent(raw, maxPropertyDepth)
  const one = {
    config: { scan: scanOne, pooledFrom: MIN_POOLED_EVENT },
    schema: { body: TrackBody, response: { 200: Done } },
  }
  app.post('/track', one, async (request, reply) => {
    const { projectId, key, rawBody, body } = request
    const idempotencyKey = idempotencyKeyOf(request)
    const event = verbatimEvent(rawBody, body, key)
    releaseUnless(event, rawBody)
    const appended = idempotencyKey
      ? await commits.appendKeyedEvent(projectId, event, idempotencyKey)
      : await commits.appendEvent(projectId, event)
    reply.header('x-event-id', idOf(appended))
    return { status: 1, error: null } as const
  })

  const scanAll = (raw: Buffer) => scanBatch(raw, MAX_BATCH, maxPropertyDepth)
  app.post(
    '/track/batch',
    {
      bodyLimit,
      config: { scan: scanAll, pooledFrom: 0, maxWeight: MAX_BATCH_WEIGHT },
      schema: { body: BatchBody, response: { 200: Accepted } },
    },
    async (request) => {
      const { projectId, key, rawBody } = request
      const body: typeof request.body | ScannedBody = request.body
      const idempotencyKey = idempotencyKeyOf(request)
      const count = body instanceof ScannedBody ? body.count : body.events.length
      const entry = verbatimBatch(rawBody, body, key)
      releaseUnless(entry, rawBody)
      await commits.appendBatch(projectId, entry, count, idempotencyKey)
      return { status: 1, error: null, accepted: count } as const
    },
  )
}
