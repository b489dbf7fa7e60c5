import type { FastifyPluginAsyncTypebox, TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { Static } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Contexts } from '../context/contexts.js'
import { ApiError } from '../contract/errors.js'
import { MAX_BATCH } from '../contract/limits.js'
import type { BatchQuery } from '../contract/query-schemas.js'
import { type BatchBody, BatchContexts, EventContext } from '../contract/schemas.js'
import { compileCheck, tooManyEvents } from '../contract/validation.js'
import type { Admission } from '../http/admission/admission.js'
import { getSender } from '../http/admission/authenticate.js'
import { hasMoreElements } from '../http/admission/body-key.js'
import { parseIdempotencyKey } from '../http/admission/idempotency-key.js'
import { batchWarnings, withWarnings } from '../http/field-warnings.js'
import type { IgnoredFields } from '../http/ignored-fields.js'
import { RequestSource } from '../http/request-source.js'
import { appendNew } from '../ingest/append-new.js'
import type { Appended, Appends, Submission } from '../ingest/group-commit.js'
import { KnownEvents, type KnownEventsParts } from '../ingest/known-events.js'
import type { Journal } from '../journal/journal.js'
import type { BufferPool } from '../lib/buffer-pool.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import { formatBatchId, NO_BATCH } from '../model/batch-id.js'
import { eventIdFormatter, formatEventId } from '../model/event-id.js'
import { readRequestIds } from '../model/identified-events.js'
import type { RequestIds } from '../model/request-ids.js'
import { scanBatch, scanEvent, scanLines } from '../model/scan.js'
import { ScannedBody } from '../model/scanned-body.js'
import { type EventContexts, keepVerbatim, type ParsedBody } from '../model/verbatim.js'
import { findExpired, type KeptSince, type RequestMemory, refuseExpired } from '../projects/late-events.js'
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
  ids: RequestMemory & KnownEventsParts['ids']
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
const checkContexts = compileCheck(BatchContexts, null)

/**
 * Finds the contexts with which the events of a request are stored; with a secret key, those in its body, which the
 * scan has checked unless the body was parsed.
 * @throws ApiError `invalid_request`
 */
function chooseContexts(
  contexts: Contexts,
  request: FastifyRequest,
  { isBatch }: ScannedBody | ParsedBody,
): EventContexts {
  if (request.keyKind !== 'secret') return contexts.find(request.projectId, new RequestSource(request))
  const check = isBatch ? checkContexts : checkContext
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

function rejectReleased(buffers: BufferPool, body: Buffer, error: unknown): never {
  buffers.release(body)
  throw error
}

/** Ingests events. The response follows once the events are durable in the journal. */
export const track: FastifyPluginAsyncTypebox<TrackOptions> = async (
  app,
  { journals, buffers, commits, contexts, admission, bodyLimit, maxDepth, keptSince, ids, ignored, shards, barrier },
) => {
  const known = new KnownEvents({ shards, barrier, ids, keptSince })
  const formatId = createIdFormatter(journals)
  /**
   * Reads what a request sends, and appends it.
   * @param storedBefore see `BatchQuery`
   * @throws ApiError `invalid_request` because of a context or the key, `too_old`, and those of `append`
   */
  const submit = <Result>(
    request: FastifyRequest,
    body: ScannedBody | ParsedBody,
    append: (submission: Submission, ids: RequestIds) => Promise<Result>,
    storedBefore?: number,
  ): Promise<Result> => {
    const { key, rawBody } = request
    const kept = chooseContexts(contexts, request, body)
    const { projectId, keyClass } = getSender(request)
    // An import that resumes must meet the same refusals: it sends the other events with the key of the first attempt.
    const expired = findExpired(keptSince(projectId, storedBefore), rawBody, body)
    const requestIds = readRequestIds(projectId, parseIdempotencyKey(request), rawBody, body)
    const stored = keepVerbatim(rawBody, body, key, kept)
    if (stored !== rawBody) {
      buffers.release(rawBody)
      if (requestIds.kind === 'events') requestIds.spans = null
    }
    const { isBatch, count } = body
    const submission: Submission = { kind: isBatch ? 'batch' : 'event', projectId, keyClass, body: stored, count }
    if (!expired) return append(submission, requestIds)
    const refused = (error: unknown) => rejectReleased(buffers, stored, error)
    return refuseExpired(expired, ids, submission, requestIds).then(() => append(submission, requestIds), refused)
  }
  const append: Appends['append'] = (submission, ids) => commits.append(submission, ids)

  const scanOne = (raw: Buffer) => scanEvent(raw, maxDepth)
  const one = { ...CALLS.track, config: { ...CALLS.track.config, scan: scanOne } }
  app.post('/track', one, async (request, reply) => {
    const { body: given } = request
    const body = given instanceof ScannedBody ? given : { isBatch: false, count: 1, events: [given] }
    if (!(body instanceof ScannedBody) || body.hasOthers) ignored.note(request)
    const appended = await submit(request, body, append)
    // A known event keeps the id from its first request, which is not remembered.
    if (appended) reply.header('x-event-id', formatId(appended))
    return { status: 1, error: null } as const
  })

  const appendBatch = async (
    request: FastifyRequest,
    given: Static<typeof BatchBody> | ScannedBody,
    reply: Pick<FastifyReply, 'header'>,
  ) => {
    const { stored_before: storedBefore } = request.query as Static<typeof BatchQuery>
    if (storedBefore !== undefined) requireSecretKey(request)
    const warned = withWarnings(batchWarnings(request))
    const body =
      given instanceof ScannedBody ? given : { isBatch: true, count: given.events.length, events: given.events }
    const { appended, skipped } =
      storedBefore === undefined
        ? { appended: await submit(request, body, append), skipped: undefined }
        : await submit(
            request,
            body,
            (batch, ids) => appendNew({ commits, buffers, known }, batch, ids, storedBefore),
            storedBefore,
          )
    const places = appended ? [appended, ...(appended.more ?? [])] : []
    reply.header('x-batch-ids', places.map(formatBatchId).join(',') || NO_BATCH)
    const accepted = body.count - (skipped ?? 0)
    return { status: 1, error: null, accepted, ...omitUndefined({ skipped }), ...warned } as const
  }
  const batch = {
    ...CALLS.trackBatch.config,
    scan: (raw: Buffer) => scanBatch(raw, MAX_BATCH, maxDepth),
    // A body with many times the allowed events is not parsed.
    heavyRefusal: (raw: Buffer) => (hasMoreElements(raw, 'events', MAX_BATCH) ? tooManyEvents() : null),
  }
  app.post('/track/batch', { ...CALLS.trackBatch, bodyLimit, config: batch }, (request, reply) =>
    appendBatch(request, request.body, reply),
  )
  app.register(async (lines) => {
    admission.takeLines(lines)
    const config = { ...CALLS.importEvents.config, scan: (raw: Buffer) => scanLines(raw, MAX_BATCH, maxDepth) }
    lines
      .withTypeProvider<TypeBoxTypeProvider>()
      .post('/import', { ...CALLS.importEvents, bodyLimit, config }, (request, reply) =>
        appendBatch(request, request.body, reply),
      )
  })
}
