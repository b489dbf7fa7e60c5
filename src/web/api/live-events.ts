import { firstEvent } from '../lib/first-event.js'
import { parseExact } from '../lib/json-text.js'
import type { LatestEvents } from '../lib/merge-events.js'
import { CallError, openStream } from './call.js'
import { type ExactEvent, listEvents } from './events.js'
import { serviceStatus } from './service-status.js'
import { SseParser } from './sse-parser.js'

/** Which events to show; empty fields match all. */
export interface LiveFilter {
  event: string
  distinctId: string
  /** applied to each event in the browser, not by the service */
  isMatch?: (event: ExactEvent) => boolean
}

export type LiveState = 'connecting' | 'live' | 'broken' | 'failed'

export interface LiveListener {
  /** called with the newest events, at first and after a gap; @param seen id of the last event seen before */
  onLatest: (latest: LatestEvents<ExactEvent>, seen: string) => void
  /** called with new events, oldest first */
  onEvents: (events: ExactEvent[]) => void
  /** @param error why the state is `broken` or `failed`; null if the service ended the stream normally */
  onState: (state: LiveState, error: Error | null) => void
}

/** Maximum length of the list. Events beyond it are not parsed, unless they have to be filtered. */
export const MAX_EVENTS = 500
/** Number of events to show initially. */
const FIRST_EVENTS = 50
/** Events that arrive within this time are delivered together, ms. */
const COLLECT_MS = 100
const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 15_000
/** The service sends something at least every 15 s. */
const SILENCE_MS = 40_000

/** Maximum number of missed events to catch up on; after more, continue with the newest ones. */
const MAX_MISSED = 5_000

/**
 * Follows new events until the signal is aborted. The stream is closed while the tab is hidden. When the tab is
 * shown again, or after a broken connection, it resumes after the last event.
 */
export async function followEvents(filter: LiveFilter, listener: LiveListener, signal: AbortSignal): Promise<void> {
  const follower = new Follower(filter, listener)
  for (let failures = 0; ; ) {
    await waitUntilVisible(signal)
    if (signal.aborted) return
    let failure: Error | null = null
    try {
      await follower.follow(abortWhenHidden(signal), () => {
        failures = 0
      })
    } catch (error) {
      failure = error as Error
    }
    if (signal.aborted) return
    if (document.visibilityState === 'hidden') continue
    const isFinal = failure instanceof CallError && [400, 401, 403].includes(failure.status)
    listener.onState(isFinal ? 'failed' : 'broken', failure)
    if (isFinal) return
    await pause(Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures++), signal)
  }
}

/** State that outlives a single stream. */
class Follower {
  readonly #filter: LiveFilter
  readonly #listener: LiveListener
  #seen = ''
  /**
   * events missed while the stream was closed: the id of the last one, and how many may still follow; null once caught
   * up
   */
  #missed: { until: string; left: number } | null = null
  /** whether too many events were missed, so that the next stream starts with the newest ones */
  #isFarBehind = false
  #texts: string[] = []
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(filter: LiveFilter, listener: LiveListener) {
    this.#filter = filter
    this.#listener = listener
  }

  /** Resolves when the service ends the stream. */
  async follow(signal: AbortSignal, onOpen: () => void): Promise<void> {
    const { event, distinctId } = this.#filter
    const query = { ...(event && { event }), ...(distinctId && { distinct_id: distinctId }) }
    this.#listener.onState('connecting', null)
    const watch = new AbortController()
    const both = AbortSignal.any([signal, watch.signal])
    let silence = setTimeout(() => watch.abort(), SILENCE_MS)
    const frames = new SseParser()
    const decoder = new TextDecoder()
    try {
      const path = `/public/events/live?${new URLSearchParams(query)}`
      const lastEventId = this.#isFarBehind ? '' : this.#seen
      const stream = await openStream(path, { lastEventId, signal: both })
      // Open the stream first, so that events accepted in between are in both results rather than in neither.
      if (lastEventId === '') await this.#readLatest(query, both)
      else await this.#lookAhead(query, both)
      onOpen()
      this.#listener.onState('live', null)
      const reader = stream.getReader()
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        clearTimeout(silence)
        silence = setTimeout(() => watch.abort(), SILENCE_MS)
        this.#collect(frames.push(decoder.decode(part.value, { stream: true })))
        if (this.#isFarBehind) return watch.abort()
      }
    } finally {
      clearTimeout(silence)
      this.#deliver()
      this.#missed = null
    }
  }

  async #readLatest(query: Record<string, string>, signal: AbortSignal): Promise<void> {
    const { isMatch = () => true } = this.#filter
    const isFirst = this.#seen === '' && !this.#filter.isMatch
    const limit = isFirst ? FIRST_EVENTS : MAX_EVENTS
    const { events, next } = await listEvents({ ...query, order: 'desc', limit: String(limit) }, signal)
    // With a selective filter, the service may have stopped before it had searched everything.
    const since = next === null ? null : (events.at(-1)?.eventId ?? null)
    this.#listener.onLatest({ events: events.filter(isMatch), since }, this.#seen)
    this.#see(events[0]?.eventId)
    this.#isFarBehind = false
  }

  /** Determines up to which event the stream has to catch up. */
  async #lookAhead(query: Record<string, string>, signal: AbortSignal): Promise<void> {
    const { events } = await listEvents({ ...query, order: 'desc', limit: '1' }, signal)
    const until = events[0]?.eventId ?? ''
    this.#missed = until > this.#seen ? { until, left: MAX_MISSED } : null
  }

  #see(eventId = ''): void {
    if (eventId > this.#seen) this.#seen = eventId
  }

  #collect(texts: string[]): void {
    if (texts.length === 0) return
    if (this.#missed) this.#missed.left -= texts.length
    if (this.#missed && this.#missed.left < 0) {
      // Events that were already delivered still count; the rest is replaced by the newest events.
      this.#isFarBehind = true
      this.#texts = []
      return
    }
    this.#texts.push(...texts)
    if (!this.#filter.isMatch) this.#texts.splice(0, this.#texts.length - MAX_EVENTS)
    this.#timer ??= setTimeout(() => this.#deliver(), COLLECT_MS)
  }

  #deliver(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const { isMatch = () => true } = this.#filter
    const events = this.#texts.map((text): ExactEvent => parseExact(text)).filter(({ eventId }) => eventId > this.#seen)
    this.#texts = []
    this.#see(events.at(-1)?.eventId)
    if (this.#missed && this.#seen >= this.#missed.until) this.#missed = null
    const matching = events.filter(isMatch)
    if (matching.length > 0) this.#listener.onEvents(matching)
  }
}

async function waitUntilVisible(signal: AbortSignal): Promise<void> {
  if (signal.aborted || document.visibilityState === 'visible') return
  await firstEvent([document, 'visibilitychange'], [signal, 'abort'])
}

function abortWhenHidden(signal: AbortSignal): AbortSignal {
  const stop = new AbortController()
  const end = () => stop.abort()
  document.addEventListener('visibilitychange', end, { once: true, signal: AbortSignal.any([signal, stop.signal]) })
  return AbortSignal.any([signal, stop.signal])
}

/** Ends early when the service is ready again or the network is back, for example after a laptop wakes up. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await firstEvent(
    [AbortSignal.timeout(ms), 'abort'],
    [serviceStatus, 'recovery'],
    [window, 'online'],
    [signal, 'abort'],
  )
}
