import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import { MEDIA_TYPES } from '../contract/formats.js'
import { acceptedFormat } from '../http/accept.js'
import { rowHeaders } from '../http/reply.js'
import type { Journal } from '../journal/journal.js'
import { memberText } from '../json/texts.js'
import type { StoredEntries } from '../lanes/stored-entries.js'
import { omitUndefined } from '../lib/omit-undefined.js'
import { parseBatchId } from '../model/batch-id.js'
import { formatEventId, parseEventId } from '../model/event-id.js'
import { scanEdit } from '../model/scan.js'
import type { KeptSince } from '../projects/late-events.js'
import type { EventReads } from '../reads/event-reads.js'
import { countEventsOfBatches, deleteEventsOfBatches } from '../store/batches.js'
import { countEventsInDeadLetters } from '../store/dead-letter-erasure.js'
import { EventEdits } from '../store/event-edits.js'
import { readEvent } from '../store/event-pages.js'
import { CALLS } from './events.calls.js'

export interface EventsOptions {
  shards: Shards
  reads: EventReads
  /** waits for entries that were accepted */
  entries: StoredEntries
  noteDeletion: Journal['noteDeletion']
  /** levels of objects and arrays, including the properties object itself */
  maxDepth: number
  /** the time since which a project's events are kept, epoch ms @throws ApiError `unavailable` if it is not known yet */
  keptSince: KeptSince
}

/** Reads, changes and deletes events. */
export const events: FastifyPluginAsyncTypebox<EventsOptions> = async (
  app,
  { shards, reads, entries, noteDeletion, maxDepth, keptSince },
) => {
  const edits = new EventEdits(shards, noteDeletion)
  app.addHook('onClose', () => edits.close())

  app.get('/events', CALLS.readEvents, async (request, reply) => {
    const { projectId, query, headers, signal } = request
    const { limit, page, cursor, order, event, distinct_id: distinctId, from, to, session_id: sessionId } = query
    const filter = omitUndefined({ event, distinctId, from, to, sessionId })
    const asked = { projectId, filter, limit, page, cursor, order }
    const format = query.format ?? acceptedFormat(headers.accept)
    if (format === 'json') {
      const page = await reads.json(asked, signal)
      reply.header('content-type', MEDIA_TYPES.json.contentType).header('vary', 'accept')
      return page
    }
    const { rows, next, pending } = await reads.rows(format, asked, signal)
    reply.headers(rowHeaders(format, { next, hasMore: next !== null, pending }))
    return rows
  })

  app.get('/events/:eventId', CALLS.readEvent, async ({ projectId, params, signal }, reply) => {
    const event = await readEvent(shards, { projectId, ...(await whereStored(params.eventId)) }, signal)
    if (!event) throw unknownEvent()
    reply.header('content-type', MEDIA_TYPES.json.contentType)
    return Buffer.concat([Buffer.from('{"status":1,"error":null,"event":'), event, Buffer.from('}')])
  })

  app.put(
    '/events/:eventId',
    { ...CALLS.editEvent, config: { ...CALLS.editEvent.config, scan: (raw: Buffer) => scanEdit(raw, maxDepth) } },
    async ({ projectId, params, rawBody }) => {
      await change(projectId, params.eventId, memberText(rawBody.toString(), 'properties') ?? '{}')
      return { status: 1, error: null } as const
    },
  )

  app.delete('/events/:eventId', CALLS.deleteEvent, async ({ projectId, params }) => {
    await change(projectId, params.eventId, null)
    return { status: 1, error: null } as const
  })

  app.post('/events/delete', CALLS.deleteBatches, async ({ projectId, body: { batches, dry_run: isDryRun } }) => {
    const places = batches.map((id) => parseBatchId(id)).filter((place) => place !== null)
    await entries.waitForAll(places)
    const { events, withInsertId } = await countEventsOfBatches(shards, projectId, places)
    if (!isDryRun && events > 0) await deleteEventsOfBatches(shards, projectId, places, noteDeletion)
    // An earlier attempt may have deleted them without noting it.
    if (!isDryRun && events === 0) await noteDeletion(projectId)
    return { status: 1, error: null, events, with_insert_id: withInsertId } as const
  })

  async function change(projectId: string, id: string, properties: string | null): Promise<void> {
    const { eventId, home } = await whereStored(id)
    // Edits find an event by its id alone, so first check that it has not expired.
    const isKept =
      keptSince(projectId) === undefined || (await readEvent(shards, { projectId, eventId, home })) !== null
    const found = isKept && (await edits.apply({ projectId, eventId, properties }, home))
    if (!found && properties !== null) throw await unknownOrRefused(projectId, eventId)
    if (!found && !(await edits.deleteFromDeadLetters({ projectId, eventId }, home))) throw unknownEvent()
  }

  /** The error for an event that is not stored; a dead letter can be replayed first. */
  async function unknownOrRefused(projectId: string, eventId: string): Promise<ApiError> {
    const place = parseEventId(eventId)
    const { events } = place ? await countEventsInDeadLetters(shards, projectId, [place]) : { events: 0 }
    if (events === 0) return unknownEvent()
    return new ApiError('not_found', 'This event could not be stored and is in a dead letter. Replay that first.')
  }

  /**
   * Waits until an accepted event is stored: its id contains its position in the journal of its lane.
   * @returns the id as stored, and the number of the shard where it should be
   */
  async function whereStored(id: string): Promise<{ eventId: string; home: number }> {
    const place = parseEventId(id)
    if (!place) throw unknownEvent()
    return { eventId: formatEventId(place), home: await entries.waitFor(place) }
  }
}

function unknownEvent(): ApiError {
  return new ApiError('not_found', 'There is no event with this id.')
}
