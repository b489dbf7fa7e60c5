import type { EventPage, Properties, StoredEvent } from '../contract/responses.js'
import { elementTexts, memberText } from '../json/spans.js'
import type { CallOptions, Connection } from './connection.js'
import { TallyhouseError } from './errors.js'
import type { JsonText } from './event.js'

export interface EventFilter {
  event?: string
  distinct_id?: string
  /** the earliest event time: epoch milliseconds or a Date */
  from?: number | Date
  /** the event time before which events are wanted */
  to?: number | Date
}

export interface ExportOptions extends EventFilter, CallOptions {
  /** `asc`, where absent: in the order in which the service accepted them; `desc`: the newest first */
  order?: 'asc' | 'desc'
  /** events that are asked for, and held in memory, at once: 1 to 10 000; 1000 where absent */
  pageSize?: number
  /**
   * Gives `properties` as the text that was sent, to the byte. Else they are parsed, and numbers that are no double,
   * such as integers beyond 2^53, come out rounded.
   */
  raw?: boolean
}

/** Each try waits up to 5 s in the service: a minute in all. */
const TRIES_FOR_PENDING = 12

/**
 * All events, in the order in which the service accepted them, or the newest first. Those that arrive meanwhile come at
 * the end, or not at all.
 * @throws TallyhouseError `incomplete` after the last event that can be had, where the store does not catch up with
 * what was accepted
 */
export async function* exportEvents(
  connection: Connection,
  { pageSize = 1000, raw = false, signal, ...filter }: ExportOptions,
): AsyncGenerator<StoredEvent<Properties | JsonText>, void, undefined> {
  const query = queryOf({ limit: pageSize, ...filter })
  const isDescending = filter.order === 'desc'
  let cursor = ''
  let lastId = ''
  let missing = 0
  for (let triesForPending = 0; ; ) {
    const { value, text } = await connection.call(
      { method: 'GET', path: `/public/events?${query}${cursor}` },
      { signal },
    )
    const { events, next, pending } = value as unknown as EventPage
    // What is pending would come first here, and no later page can have it.
    if (isDescending && cursor === '') {
      missing = pending
      if (pending > 0 && ++triesForPending < TRIES_FOR_PENDING) continue
    }
    for (const event of raw ? withRawProperties(events, text) : events) {
      // The last page is read again while events are pending. Ids sort as the events were accepted.
      if (!isDescending && event.eventId <= lastId) continue
      lastId = event.eventId
      yield event
    }
    if (next !== null) cursor = `&cursor=${encodeURIComponent(next)}`
    else if (isDescending && missing > 0) throw incomplete(missing)
    else if (isDescending || pending === 0) return
    else if (++triesForPending === TRIES_FOR_PENDING) throw incomplete(pending)
  }
}

/** The parameters of a read, without what is undefined. */
export function queryOf(filter: object): URLSearchParams {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(filter)) {
    if (value !== undefined) query.set(name, String(value instanceof Date ? value.getTime() : value))
  }
  return query
}

/** Of an object's text, such as that of an event or a session. */
export function rawProperties(text: JsonText): JsonText {
  return memberText(text, 'properties') ?? '{}'
}

function withRawProperties(events: StoredEvent[], text: string): StoredEvent<JsonText>[] {
  const texts = elementTexts(memberText(text, 'events') ?? '[]')
  return events.map((event, i) => ({ ...event, properties: rawProperties(texts[i] ?? '{}') }))
}

function incomplete(pending: number): TallyhouseError {
  const message = `The store has not caught up: ${pending} accepted events are missing from the export. Run it again later.`
  return new TallyhouseError('incomplete', message)
}
