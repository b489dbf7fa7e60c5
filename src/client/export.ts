import type { EventPage, Properties, StoredEvent } from '../contract/responses.js'
import { memberText } from '../json/texts.js'
import { readText } from '../json/value.js'
import type { CallOptions, Connection } from './connection.js'
import { TallyhouseError } from './errors.js'
import type { JsonText } from './event.js'

export interface EventFilter {
  event?: string
  distinct_id?: string
  session_id?: string
  /** the earliest event time: epoch milliseconds or a Date */
  from?: number | Date
  /** only events before this time */
  to?: number | Date
}

export interface ExportOptions extends EventFilter, CallOptions {
  /** `asc`, the default: in the order in which the service accepted them; `desc`: newest first */
  order?: 'asc' | 'desc'
  /** events per request, which are held in memory: 1 to 10 000; default 1000 */
  pageSize?: number
  /**
   * Returns `properties` as the exact text that was sent. Otherwise they are parsed, which rounds
   * numbers that a double cannot represent, such as integers beyond 2^53.
   */
  raw?: boolean
}

/** The service waits up to 5 s for the store in each attempt, so this is a minute in all. */
const PENDING_ATTEMPTS = 12

/**
 * Yields all events, in the order in which the service accepted them, or newest first. Events that arrive during the
 * export are at its end, or not included.
 * @throws TallyhouseError `incomplete` after the last available event, if the store does not catch up with the
 * accepted events
 */
export async function* exportEvents(
  connection: Connection,
  { pageSize = 1000, raw = false, signal, ...filter }: ExportOptions,
): AsyncGenerator<StoredEvent<Properties | JsonText>, void, undefined> {
  const query = toSearchParams({ limit: pageSize, ...filter })
  const isDescending = filter.order === 'desc'
  let cursor = ''
  let lastId = ''
  let missing = 0
  for (let pendingAttempts = 0; ; ) {
    const { value, text } = await connection.call(
      { method: 'GET', path: `/public/events?${query}${cursor}` },
      { signal },
    )
    const { events, next, pending } = value as unknown as EventPage
    // In this order, pending events would come first, and no later page can include them.
    if (isDescending && cursor === '') {
      missing = pending
      if (pending > 0 && ++pendingAttempts < PENDING_ATTEMPTS) continue
    }
    for (const event of raw ? withRawProperties(events, text) : events) {
      // The last page is read again while events are pending. Ids sort in the order of acceptance.
      if (!isDescending && event.eventId <= lastId) continue
      lastId = event.eventId
      yield event
    }
    if (next !== null) cursor = `&cursor=${encodeURIComponent(next)}`
    else if (isDescending && missing > 0) throw incomplete(missing)
    else if (isDescending || pending === 0) return
    else if (++pendingAttempts === PENDING_ATTEMPTS) throw incomplete(pending)
  }
}

/** Converts a filter to query parameters, without undefined ones. */
export function toSearchParams(filter: object): URLSearchParams {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(filter)) {
    if (value !== undefined) query.set(name, String(value instanceof Date ? value.getTime() : value))
  }
  return query
}

/** Returns the text of `properties` in the text of an event, user or session. */
export function rawProperties(text: JsonText): JsonText {
  return memberText(text, 'properties') ?? '{}'
}

function withRawProperties(events: StoredEvent[], text: string): StoredEvent<JsonText>[] {
  const texts = readText(text).member('events')?.elements() ?? []
  return events.map((event, i) => ({ ...event, properties: texts[i]?.member('properties')?.text ?? '{}' }))
}

function incomplete(pending: number): TallyhouseError {
  const message = `The store has not caught up: ${pending} accepted events are missing from the export. Run it again later.`
  return new TallyhouseError('incomplete', message)
}
