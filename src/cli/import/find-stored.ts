import type { Connection } from '../../client/connection.js'
import { MAX_PAGE } from '../../contract/limits.js'
import { memberText } from '../../json/texts.js'
import { readText } from '../../json/value.js'
import type { BatchPlace } from '../../model/batch-id.js'
import { formatCursor } from '../../model/cursor.js'
import { type EventPlace, firstIdAfter, formatEventId, parseEventId } from '../../model/event-id.js'
import { positionAt } from '../../model/position.js'
import { TRANSFER_RETRY } from '../check-service.js'

/** What to do with batches that were not acknowledged and whose idempotency keys have expired. */
export const UNACKNOWLEDGED = ['check', 'send', 'skip'] as const
export type Unacknowledged = (typeof UNACKNOWLEDGED)[number]

/** If more than this share of a request is found together, it was stored and then changed. */
const RECOGNIZED = 0.5

/**
 * How far the clocks that give events their positions may be behind the service's. More than a minute raises an alert.
 */
const CLOCKS_APART_MS = 5 * 60_000

/** A request that an earlier run sent. */
export interface FoundRequest {
  place: BatchPlace
  /** indexes of its events with an `insert_id` that are not in this place; the service recognizes them */
  missing: Set<number>
}

interface Sought {
  text: string
  essence: string
  /** null: the service chose the time */
  timestamp: unknown
  hasId: boolean
}

/**
 * Looks for a request among the service's events. Its events are stored as one entry with consecutive event ids, except
 * those with an `insert_id`, which may have been stored before or in another lane. So all others must be there, in
 * order. If the input contains two identical requests, one can be mistaken for the other.
 * @param events texts of the events of the request
 * @param line of the first one
 * @param since when the import began by the service's clock, epoch ms: what was accepted before is not its own
 * @returns null if it is not stored
 * @throws Error if it was stored and then changed, or if the store has not caught up
 */
export async function findStored(
  connection: Connection,
  { events, line, since }: { events: readonly string[]; line: number; since: number },
  signal: AbortSignal,
): Promise<FoundRequest | null> {
  const sought = events.map(seek)
  const others = [...sought.keys()].filter((i) => !sought[i]?.hasId)
  const ends = others.length > 0 ? others : [...sought.keys()]
  const seen = new Set<bigint>()
  for (const index of new Set([ends.at(0) ?? 0, ends.at(-1) ?? 0])) {
    for (const place of await findLike(connection, { sought, index, since }, signal)) {
      if (seen.has(place.position)) continue
      seen.add(place.position)
      const entry = await readEntry(connection, place, events.length, signal)
      const found = matchEvents(sought, entry)
      const same = others.filter((i) => found.has(i)).length
      if (found.size === entry.length && same === others.length) {
        return { place, missing: new Set([...sought.keys()].filter((i) => !found.has(i))) }
      }
      if (same > RECOGNIZED * others.length) {
        throw new Error(
          `${same} of the ${others.length} events from line ${line} on are stored; others were changed or deleted.`,
        )
      }
    }
  }
  return null
}

function seek(text: string): Sought {
  const { timestamp, insert_id } = JSON.parse(text)
  return { text, essence: essence(text), timestamp: timestamp ?? null, hasId: (insert_id ?? null) !== null }
}

/** What the service does not change: the exact text of the properties, the name, the user and the `insert_id`. */
function essence(text: string): string {
  const { event, distinct_id, properties, insert_id } = JSON.parse(text)
  const exact = (properties ?? null) === null ? '{}' : memberText(text, 'properties')
  return JSON.stringify([event, distinct_id, insert_id ?? null, exact])
}

/** @returns the indexes of the sought events that the entry has, in the same order */
function matchEvents(sought: readonly Sought[], entry: readonly string[]): Set<number> {
  const found = new Set<number>()
  let from = 0
  for (const text of entry) {
    const [stored, { timestamp: time }] = [essence(text), JSON.parse(text)]
    const isSame = ({ essence, timestamp }: Sought, i: number) =>
      i >= from && essence === stored && (timestamp === null || timestamp === time)
    const index = sought.findIndex(isSame)
    if (index === -1) continue
    found.add(index)
    from = index + 1
  }
  return found
}

/** Finds the positions of the import's events that look like this one and may have this index in their request. */
async function findLike(
  connection: Connection,
  { sought, index, since }: { sought: readonly Sought[]; index: number; since: number },
  signal: AbortSignal,
): Promise<EventPlace[]> {
  const { event: name, distinct_id, timestamp } = JSON.parse(sought[index]?.text ?? '{}')
  const first = sought.slice(0, index).filter(({ hasId }) => !hasId).length
  const cursor = formatCursor(firstIdAfter(positionAt(since - CLOCKS_APART_MS)))
  const query = new URLSearchParams({ event: name, distinct_id, limit: String(MAX_PAGE), cursor })
  if (typeof timestamp === 'number') {
    query.set('from', String(Math.floor(timestamp)))
    query.set('to', String(Math.floor(timestamp) + 1))
  }
  const places: EventPlace[] = []
  for (;;) {
    const { ids, next } = await read(connection, query, signal)
    for (const id of ids.keys()) {
      const place = parseEventId(id)
      if (place && place.index >= first && place.index <= index) places.push(place)
    }
    if (next === null) return places
    query.set('cursor', next)
  }
}

/** Reads the events of an entry, in order. */
async function readEntry(
  connection: Connection,
  place: EventPlace,
  count: number,
  signal: AbortSignal,
): Promise<string[]> {
  const cursor = formatCursor(formatEventId({ ...place, index: 0 }))
  // Request one more than expected, to notice a longer entry.
  const query = new URLSearchParams({ cursor, limit: String(count + 1) })
  const { ids } = await read(connection, query, signal)
  return [...ids].filter(([id]) => parseEventId(id)?.position === place.position).map(([, text]) => text)
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
