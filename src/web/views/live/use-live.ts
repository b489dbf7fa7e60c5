import { useEffect, useState } from 'preact/hooks'
import type { ExactEvent } from '../../api/events.js'
import { followEvents, type LiveFilter, type LiveState, MAX_EVENTS } from '../../api/live-events.js'
import type { Wish } from './live-filters.js'
import { matches } from './match-property.js'
import { extended, refreshed } from './merge-events.js'

/** Events as they become visible, newest first. */
export interface Live {
  events: ExactEvent[]
  state: LiveState
  /** why the state is `broken` or `failed` */
  error: Error | null
  /** whether the newest events were read yet */
  isLoaded: boolean
  /** whether the list stands still */
  isPaused: boolean
  /** how many came since it does */
  waiting: number
  pause: () => void
  resume: () => void
  /** puts another event in the place of one; null removes it */
  change: (eventId: string, event: ExactEvent | null) => void
}

interface Feed {
  events: ExactEvent[]
  /** how many came */
  count: number
  isLoaded: boolean
}

/** What is shown while the list stands still. */
interface Still {
  events: ExactEvent[]
  /** how many had come */
  count: number
}

const NOTHING: Feed = { events: [], count: 0, isLoaded: false }

/** @param wish another one begins anew */
export function useLive(wish: Wish): Live {
  const key = JSON.stringify(wish)
  const [feed, setFeed] = useState(NOTHING)
  const [status, setStatus] = useState<{ state: LiveState; error: Error | null }>({ state: 'connecting', error: null })
  const [still, setStill] = useState<Still | null>(null)
  useEffect(() => {
    const stop = new AbortController()
    setFeed(NOTHING)
    setStill(null)
    const listener = {
      onLatest: (read: Parameters<typeof refreshed<ExactEvent>>[1], seen: string) => {
        const added = read.events.filter(({ eventId }) => eventId > seen).length
        setFeed(({ events, count }) => {
          return { events: refreshed(events, read, seen, MAX_EVENTS), count: count + added, isLoaded: true }
        })
      },
      onEvents: (come: ExactEvent[]) => {
        setFeed((before) => {
          return { ...before, events: extended(before.events, come, MAX_EVENTS), count: before.count + come.length }
        })
      },
      onState: (state: LiveState, error: Error | null) => setStatus({ state, error }),
    }
    void followEvents(toFilter(JSON.parse(key)), listener, stop.signal)
    return () => stop.abort()
  }, [key])

  const change: Live['change'] = (eventId, event) => {
    const replace = (events: ExactEvent[]) => {
      return events.flatMap((one) => (one.eventId !== eventId ? [one] : event ? [event] : []))
    }
    setFeed((before) => ({ ...before, events: replace(before.events) }))
    setStill((before) => before && { ...before, events: replace(before.events) })
  }
  return {
    events: still?.events ?? feed.events,
    ...status,
    isLoaded: feed.isLoaded,
    isPaused: still !== null,
    waiting: still ? feed.count - still.count : 0,
    pause: () => setStill({ events: feed.events, count: feed.count }),
    resume: () => setStill(null),
    change,
  }
}

function toFilter({ event, user, property, value }: Wish): LiveFilter {
  return {
    event,
    distinctId: user,
    ...(property && { isWanted: ({ text }) => matches(text, { name: property, value }) }),
  }
}
