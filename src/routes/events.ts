import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { ClickHouse } from '../clickhouse/client.js'
import { ApiError } from '../contract/errors.js'
import { MEDIA_TYPES, type RowFormat } from '../contract/formats.js'
import { Done, EditBody, EventParams, EventsQuery, NoQuery } from '../contract/schemas.js'
import { acceptedFormat } from '../http/accept.js'
import type { Journal } from '../journal/journal.js'
import { memberText } from '../json/spans.js'
import { given } from '../lib/given.js'
import { formatCursor, type Order, parseCursor } from '../model/cursor.js'
import { formatEventId, lastIdAt, parseEventId } from '../model/event-id.js'
import type { ReadBarrier } from '../pipeline/read-barrier.js'
import type { EventEdits } from '../store/event-edits.js'
import { readEvent } from '../store/event-pages.js'
import type { SearchLimits } from '../store/event-search.js'
import { EventWalks } from '../store/event-walks.js'
import { wrapRows } from '../store/page.js'

export interface EventsOptions {
  journal: Journal
  clickhouse: ClickHouse
  edits: EventEdits
  barrier: ReadBarrier
  /** default: `SEARCH_LIMITS` */
  searchLimits?: SearchLimits | undefined
}

/** Gives events out, changes them and deletes them. */
export const events: FastifyPluginAsyncTypebox<EventsOptions> = async (
  app,
  { journal, clickhouse, edits, barrier, searchLimits },
) => {
  const walks = new EventWalks(clickhouse, searchLimits)

  app.get('/events', { schema: { querystring: EventsQuery } }, async (request, reply) => {
    const { projectId, query, headers, signal } = request
    const { limit, page, event, distinct_id: distinctId, from, to } = query
    const cursor = query.cursor === undefined ? null : readCursor(query.cursor, query.order)
    const order = cursor?.order ?? query.order ?? 'asc'
    const { stored, pending, deletions } = await barrier.waitForProject(projectId)
    const filter = given({ event, distinctId, from, to })
    // Only what the writer is done with: a block that is half in would let a walk skip the other half.
    const upTo = lastIdAt(stored)
    const wanted = { projectId, filter, order, limit, startAt: cursor?.id ?? null, page, upTo, deletions }

    const format = query.format ?? acceptedFormat(headers.accept)
    const { rows, next } = await walks.read(format, wanted, signal)
    if (format === 'json') {
      reply.header('content-type', MEDIA_TYPES.json.contentType).header('vary', 'accept')
      return wrapRows(rows, '{"status":1,"error":null,"events":[', (mark) => {
        const first = next === undefined ? mark : next
        walks.remember(wanted, first)
        const cursor = first && formatCursor(first, order)
        const rest = { page: page ?? 1, limit, hasMore: first !== null, next: cursor, pending }
        return `],${JSON.stringify(rest).slice(1)}`
      })
    }
    walks.remember(wanted, next ?? null)
    reply.headers(rowHeaders(format, next ? formatCursor(next, order) : null, pending))
    return rows
  })

  app.get(
    '/events/:eventId',
    { schema: { params: EventParams, querystring: NoQuery } },
    async ({ projectId, params, signal }, reply) => {
      const event = await readEvent(clickhouse, { projectId, eventId: await arrived(params.eventId) }, signal)
      if (!event) throw unknownEvent()
      reply.header('content-type', MEDIA_TYPES.json.contentType)
      return Buffer.concat([Buffer.from('{"status":1,"error":null,"event":'), event, Buffer.from('}')])
    },
  )

  app.put(
    '/events/:eventId',
    { schema: { params: EventParams, body: EditBody, response: { 200: Done } } },
    async ({ projectId, params, rawBody }) => {
      await change(projectId, params.eventId, memberText(rawBody.toString(), 'properties') ?? '{}')
      return { status: 1, error: null } as const
    },
  )

  app.delete(
    '/events/:eventId',
    { schema: { params: EventParams, response: { 200: Done } } },
    async ({ projectId, params }) => {
      await change(projectId, params.eventId, null)
      return { status: 1, error: null } as const
    },
  )

  async function change(projectId: string, id: string, properties: string | null): Promise<void> {
    const found = await edits.apply({ projectId, eventId: await arrived(id), properties })
    if (!found) throw unknownEvent()
    if (properties === null) await journal.noteDeletion(projectId)
  }

  /**
   * Waits for an event that is still on its way to the store: its id says where in the journal it is.
   * @returns the id as the store has it
   */
  async function arrived(id: string): Promise<string> {
    const place = parseEventId(id)
    if (!place) throw unknownEvent()
    const { appended, stored } = await journal.progress()
    const isOnItsWay = place.journalId === journal.id && place.position > stored && place.position <= appended
    if (isOnItsWay) await barrier.waitFor(place.position)
    return formatEventId(place)
  }
}

/** What the envelope of a JSON page says, beside rows that have none. */
function rowHeaders(format: RowFormat, next: string | null, pending: number): Record<string, string> {
  return {
    'content-type': MEDIA_TYPES[format].contentType,
    'content-disposition': `attachment; filename="events.${format}"`,
    'x-has-more': String(next !== null),
    ...(next !== null && { 'x-next-cursor': next }),
    'x-pending': String(pending),
    vary: 'accept',
  }
}

function unknownEvent(): ApiError {
  return new ApiError('not_found', 'There is no event with this id.')
}

function readCursor(text: string, order: Order | undefined): { id: string; order: Order } {
  const cursor = parseCursor(text)
  if (cursor && cursor.order === (order ?? cursor.order)) return cursor
  const message = cursor
    ? `is of a walk in the order ${cursor.order}; go on with that order`
    : 'must be the `next` of an earlier response'
  throw new ApiError('invalid_request', `cursor ${message}.`, { details: [{ path: '/cursor', message }] })
}
