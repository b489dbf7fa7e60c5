import type { Connection } from '../../client/connection.js'
import { MAX_PAGE } from '../../contract/limits.js'
import { memberText } from '../../json/texts.js'
import { readText } from '../../json/value.js'
import type { BatchPlace } from '../../model/batch-id.js'
import { formatCursor } from '../../model/cursor.js'
import { type EventPlace, formatEventId, parseEventId } from '../../model/event-id.js'
import { TRANSFER_RETRY } from '../check-service.js'
import type { Batch } from './batches.js'
import { readEventTexts } from './send.js'

/** What to do with batches that were not acknowledged and whose idempotency keys have expired. */
export const UNACKNOWLEDGED = ['check', 'send', 'skip'] as const
export type Unacknowledged = (typeof UNACKNOWLEDGED)[number]

/** If more than this share of a batch is found together, the batch was stored and then changed. */
const RECOGNIZED = 0.5

/**
 * Looks for a batch among the service's events. A batch is stored as one entry with consecutive event ids, so all of
 * its events must be there, in order. If the input contains two identical batches, one can be mistaken for the other.
 * @returns its position; null if it is not stored
 * @throws Error if it was stored and then changed, or if the store has not caught up
 */
export async function findStored(
  connection: Connection,
  batch: Batch,
  signal: AbortSignal,
): Promise<BatchPlace | null> {
  const events = readEventTexts(batch.body)
  const seen = new Set<bigint>()
  for (const index of new Set([0, events.length - 1])) {
    for (const place of await findLike(connection, events[index] ?? '', index, signal)) {
      if (seen.has(place.position)) continue
      seen.add(place.position)
      const entry = await readEntry(connection, place, events.length, signal)
      const same = events.filter((event, i) => isSame(event, entry.get(i))).length
      if (same === events.length && entry.size === events.length) return place
      if (same > RECOGNIZED * events.length) {
        throw new Error(
          `${same} of the ${events.length} events from line ${batch.lines[0]} on are stored; others were changed or deleted.`,
        )
      }
    }
  }
  return null
}

/** Finds the positions of events that look like this one and have this index in their entry. */
async function findLike(
  connection: Connection,
  event: string,
  index: number,
  signal: AbortSignal,
): Promise<EventPlace[]> {
  const { event: name, distinct_id, timestamp } = JSON.parse(event)
  const query = new URLSearchParams({ event: name, distinct_id, limit: String(MAX_PAGE) })
  if (typeof timestamp === 'number') {
    query.set('from', String(Math.floor(timestamp)))
    query.set('to', String(Math.floor(timestamp) + 1))
  }
  const places: EventPlace[] = []
  for (;;) {
    const { ids, next } = await read(connection, query, signal)
    for (const id of ids.keys()) {
      const place = parseEventId(id)
      if (place?.index === index) places.push(place)
    }
    if (next === null) return places
    query.set('cursor', next)
  }
}

/** Reads the events of an entry, by index. */
async function readEntry(connection: Connection, place: EventPlace, count: number, signal: AbortSignal) {
  const cursor = formatCursor(formatEventId({ ...place, index: 0 }))
  // Request one more than expected, to notice a longer entry.
  const query = new URLSearchParams({ cursor, limit: String(count + 1) })
  const entry = new Map<number, string>()
  for (const [id, text] of (await read(connection, query, signal)).ids) {
    const found = parseEventId(id)
    if (found?.position === place.position) entry.set(found.index, text)
  }
  return entry
}

async function read(connection: Connection, query: URLSearchParams, signal: AbortSignal) {
  const path = `/public/events?${query}`
  const { value, text } = await connection.call({ method: 'GET', path }, { signal }, TRANSFER_RETRY)
  if (value.pending !== 0)
    throw new Error('The store is behind, so it is unknown which events it has. Try again later.')
  const events = readText(text).member('events')?.elements() ?? []
  const ids = new Map(events.map((event) => [event.member('eventId')?.value as string, event.text]))
  return { ids, next: value.next as string | null }
}

/** Compares the exact text of the properties. If the event had no time, the service chose one, which is ignored. */
function isSame(sent: string, stored: string | undefined): boolean {
  if (stored === undefined) return false
  const [one, other] = [JSON.parse(sent), JSON.parse(stored)]
  const properties = (one.properties ?? null) === null ? '{}' : memberText(sent, 'properties')
  return (
    one.event === other.event &&
    one.distinct_id === other.distinct_id &&
    ((one.timestamp ?? null) === null || one.timestamp === other.timestamp) &&
    properties === memberText(stored, 'properties')
  )
}
