import type { FastifyPluginAsyncTypebox, TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { Static } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Contexts } from '../context/contexts.js'
import { ApiError } from '../contract/errors.js'
import { MAX_BATCH } from '../contract/limits.js'
import type { BatchQuery } from '../contract/query-schemas.js'
import { type BatchBody, EventContext, EventContexts } from '../contract/schemas.js'
import { type Check, compileCheck, tooManyEvents } from '../contract/validation.js'
import type { Admission } from '../http/admission/admission.js'
import { getSender } from '../http/admission/authenticate.js'
import { hasMoreElements } from '../http/admission/body-key.js'
import { parseIdempotencyKey } from '../http/admission/idempotency-key.js'
import { batchWarnings, withWarnings } from '../http/field-warnings.js'
import type { IgnoredFields } from '../http/ignored-fields.js'
import { RequestSource } from '../http/request-source.js'
import { appendNew } from '../ingest/append-new.js'
import type { Appended, Appends } from '../ingest/group-commit.js'
import { KnownEvents, type KnownEventsParts } from '../ingest/known-events.js'
import type { Journal } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import { formatBatchId, NO_BATCH } from '../model/batch-id.js'
import { eventIdFormatter, formatEventId } from '../model/event-id.js'
import { readInsertIds } from '../model/identified-events.js'
import { scanBatch, scanEvent, scanLines } from '../model/scan.js'
import { ScannedBody } from '../model/scanned-body.js'
import { type EventContexts as Kept, verbatimBatch, verbatimEvent } from '../model/verbatim.js'
import {
  findExpiredEvent,
  findExpiredEvents,
  type KeptSince,
  type RequestMemory,
  refuseExpired,
} from '../projects/late-events.js'
import { CALLS } from './track.calls.js'

export interface TrackOptions extends KnownEventsParts {
  /** the journals of the service; their ids are in the event ids */
  journals: readonly Pick<Journal, 'id'>[]
  /** has the bodies of requests */
  buffers: BufferPool
  commits: Appends
  contexts: Contexts
  admission: Admission
  /** bytes */
  bodyLimit: number
  /** levels of objects and arrays, including the properties object itself */
  maxDepth: number
  keptSince: KeptSince
  ids: RequestMemory
  ignored: Pick<IgnoredFields, 'note'>
}

/** Only secret keys may find out which events are stored. */
function requireSecretKey({ keyKind }: FastifyRequest): void {
  if (keyKind === 'secret') return
  throw new ApiError(
    'wrong_key_kind',
    'stored_before needs a secret key of the project. Leave it out, or use that key.',
  )
}

const checkContext = compileCheck(EventContext, null)
const checkContexts = compileCheck(EventContexts, null)

/**
 * Finds the contexts with which the events of a request are stored; with a secret key, those in its body. @param check
 * checks the contexts in the body; those of a scanned body are valid
 * @throws ApiError `invalid_request`
 */
function chooseContexts(contexts: Contexts, request: FastifyRequest, check: Check): Kept {
  if (request.keyKind !== 'secret') return contexts.find(request.projectId, new RequestSource(request))
  const error = request.body instanceof ScannedBody ? null : check(request.body)
  if (error) throw error
  return 'own'
}

/** Formats event ids, with one formatter for each journal of the service. */
function createIdFormatter(journals: TrackOptions['journals']): (appended: Appended) => string {
  const formatters = new Map<number, (appended: Appended) => string>()
  /** Created on demand, because the number of a lane that was down at the start becomes known later. */
  const create = ({ journalId }: Appended) => {
    if (!journals.some(({ id }) => id === journalId)) return formatEventId
    const formatter = eventIdFormatter(journalId)
    formatters.set(journalId, formatter)
    return formatter
  }
  return (appended) => (formatters.get(appended.journalId) ?? create(appended))(appended)
}

/** Ingests events. The response follows once the events are durable in the journal. */
export const track: FastifyPluginAsyncTypebox<TrackOptions> = async (
  app,
  { journals, buffers, commits, contexts, admission, bodyLimit, maxDepth, keptSince, ids, ignored, shards, barrier },
) => {
  const known = new KnownEvents({ shards, barrier })
  const formatId = createIdFormatter(journals)
  /** Releases a body that was rewritten; one that is stored verbatim belongs to the group commit. */
  const releaseUnless = (stored: Buffer, rawBody: Buffer) => {
    if (stored !== rawBody) buffers.release(rawBody)
  }

  const scanOne = (raw: Buffer) => scanEvent(raw, maxDepth)
  const one = { ...CALLS.track, config: { ...CALLS.track.config, scan: scanOne } }
  app.post('/track', one, async (request, reply) => {
    const { key, rawBody, body } = request
    const sender = getSender(request)
    const kept = chooseContexts(contexts, request, checkContext)
    const expired = findExpiredEvent(keptSince(sender.projectId), rawBody, body)
    if (!(body instanceof ScannedBody) || body.hasOthers) ignored.note(request)
    const idempotencyKey = parseIdempotencyKey(request)
    const insertIds = readInsertIds(sender.projectId, rawBody, body instanceof ScannedBody ? body : [body])
    if (expired)
      await refuseExpired(expired, ids, sender, omitUndefined({ idempotencyKey, insertIds: insertIds?.digests }))
    const event = verbatimEvent(rawBody, body, key, kept)
    releaseUnless(event, rawBody)
    const appended = idempotencyKey
      ? await commits.appendKeyedEvent(sender, event, idempotencyKey, insertIds?.digests)
      : await commits.appendEvent(sender, event, insertIds?.digests)
    // A known event keeps the id from its first request, which is not remembered.
    if (appended) reply.header('x-event-id', formatId(appended))
    return { status: 1, error: null } as const
  })

  const append = async (
    request: FastifyRequest,
    body: Static<typeof BatchBody> | ScannedBody,
    reply: Pick<FastifyReply, 'header'>,
  ) => {
    const { key, rawBody } = request
    const { stored_before: storedBefore } = request.query as Static<typeof BatchQuery>
    if (storedBefore !== undefined) requireSecretKey(request)
    const kept = chooseContexts(contexts, request, checkContexts)
    const sender = getSender(request)
    // An import that resumes must meet the same refusals: it sends the other events with the key of the first attempt.
    const expired = findExpiredEvents(keptSince(request.projectId, storedBefore), rawBody, body)
    const idempotencyKey = parseIdempotencyKey(request)
    const count = body instanceof ScannedBody ? body.count : body.events.length
    const found = readInsertIds(request.projectId, rawBody, body instanceof ScannedBody ? body : body.events)
    if (expired) await refuseExpired(expired, ids, sender, omitUndefined({ idempotencyKey, insertIds: found?.digests }))
    const warned = withWarnings(batchWarnings(request))
    const entry = verbatimBatch(rawBody, body, key, kept)
    const insertIds = found && entry !== rawBody ? { ...found, spans: null } : found
    releaseUnless(entry, rawBody)
    const batch = { sender, entry, count, insertIds, ...omitUndefined({ idempotencyKey }) }
    const { appended, skipped } =
      storedBefore === undefined
        ? { appended: await commits.appendBatch(sender, entry, count, batch), skipped: undefined }
        : await appendNew({ commits, buffers, known }, batch, storedBefore)
    reply.header('x-batch-ids', appended.length > 0 ? appended.map(formatBatchId).join(',') : NO_BATCH)
    const accepted = count - (skipped ?? 0)
    return { status: 1, error: null, accepted, ...omitUndefined({ skipped }), ...warned } as const
  }
  const batch = {
    ...CALLS.trackBatch.config,
    scan: (raw: Buffer) => scanBatch(raw, MAX_BATCH, maxDepth),
    // A body with many times the allowed events is not parsed.
    heavyRefusal: (raw: Buffer) => (hasMoreElements(raw, 'events', MAX_BATCH) ? tooManyEvents() : null),
  }
  app.post('/track/batch', { ...CALLS.trackBatch, bodyLimit, config: batch }, (request, reply) =>
    append(request, request.body, reply),
  )
  app.register(async (lines) => {
    admission.takeLines(lines)
    const config = { ...CALLS.importEvents.config, scan: (raw: Buffer) => scanLines(raw, MAX_BATCH, maxDepth) }
    lines
      .withTypeProvider<TypeBoxTypeProvider>()
      .post('/import', { ...CALLS.importEvents, bodyLimit, config }, (request, reply) =>
        append(request, request.body, reply),
      )
  })
}
