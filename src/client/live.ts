import { setTimeout as wait } from 'node:timers/promises'
import type { Properties, StoredEvent } from '../contract/responses.js'
import type { CallOptions, Connection } from './connection.js'
import type { JsonText } from './event.js'
import { type EventFilter, rawProperties, toSearchParams } from './export.js'
import { isRetryable, pauseMs, type RetryPolicy } from './retry.js'

export interface LiveOptions extends EventFilter, CallOptions {
  /** starts after this event; default: with events that are accepted from now on */
  lastEventId?: string
  /** returns `properties` as the text that was sent, except for line breaks between its tokens */
  raw?: boolean
  /** called when the stream has ended, before it is reopened; null if the service ended it */
  onReconnect?: (reason: Error | null) => void
}

/** An event as its JSON text. */
export interface LiveText {
  id: string
  text: JsonText
}

/** Pauses before the stream is reopened, half a second at first. */
const RECONNECT: RetryPolicy = { attempts: Number.POSITIVE_INFINITY, baseDelayMs: 500, maxDelayMs: 30_000 }

/** After a stream that lasted this long, the pauses start from the beginning. */
const SETTLED_MS = 10_000

/** Yields events as they become visible, like `liveTexts`, but parsed. */
export async function* liveEvents(
  connection: Connection,
  { raw = false, ...options }: LiveOptions,
): AsyncGenerator<StoredEvent<Properties | JsonText>, void, undefined> {
  for await (const { text } of liveTexts(connection, options)) {
    const event = JSON.parse(text) as StoredEvent
    yield raw ? { ...event, properties: rawProperties(text) } : event
  }
}

/**
 * Yields events as they become visible, each once and in order. A stream that ends is reopened where it ended,
 * without a limit on attempts; an abort ends the iteration.
 * @throws TallyhouseError if it is permanent, such as `unauthorized`
 */
export async function* liveTexts(
  connection: Connection,
  { signal, onReconnect, lastEventId, raw: _, ...filter }: LiveOptions,
): AsyncGenerator<LiveText, void, undefined> {
  const path = `/public/events/live?${toSearchParams(filter)}`
  let last = lastEventId
  for (let failures = 0; !signal?.aborted; ) {
    let reason: Error | null = null
    let retryAfterMs: number | null = null
    const openedAt = performance.now()
    try {
      const headers = last === undefined ? {} : { 'last-event-id': last }
      const stream = await connection.eventStream({ method: 'GET', path, headers }, { signal })
      // Even if the stream breaks before its first event, events accepted in between must not be lost.
      last ??= stream.headers.get('x-last-event-id') ?? undefined
      for await (const event of readEvents(stream.lines)) {
        last = event.id
        yield event
        // Several events may have arrived together.
        if (signal?.aborted) return
      }
    } catch (error) {
      if (signal?.aborted) return
      if (!isRetryable(error)) throw error
      reason = error
      retryAfterMs = error.retryAfterMs
    }
    onReconnect?.(reason)
    if (performance.now() - openedAt >= SETTLED_MS) failures = 0
    await wait(pauseMs(RECONNECT, ++failures, retryAfterMs), undefined, { ...(signal && { signal }) }).catch(
      () => undefined,
    )
  }
}

/** Parses Server-Sent Events as far as this service uses them (HTML standard, 9.2.6). */
async function* readEvents(lines: AsyncIterable<string>): AsyncGenerator<LiveText, void, undefined> {
  let id = ''
  let data: string[] = []
  for await (const line of lines) {
    if (line.startsWith('id: ')) id = line.slice(4)
    else if (line.startsWith('data: ')) data.push(line.slice(6))
    else if (line === '' && data.length > 0) {
      yield { id, text: data.join('\n') }
      data = []
    }
  }
}
