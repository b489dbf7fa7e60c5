import { useEffect, useState } from 'preact/hooks'
import type { ExactEvent } from '../../api/events.js'
import { followEvents, type LiveFilter, type LiveState, MAX_EVENTS } from '../../api/live-events.js'
import { addNewEvents, mergeLatest, replaceEvent } from '../../lib/merge-events.js'
import type { FilterValues } from './live-filters.js'
import { matchesProperty } from './match-property.js'

/** The live list of events, newest first. */
export interface Live {
  events: ExactEvent[]
  state: LiveState
  /** why the state is `broken` or `failed` */
  error: Error | null
  /** whether the newest events have been loaded */
  isLoaded: boolean
  /** whether the list is paused */
  isPaused: boolean
  /** number of new events since the pause */
  waiting: number
  pause: () => void
  resume: () => void
  /** replaces an event; null removes it */
  change: (eventId: string, event: ExactEvent | null) => void
}

interface Feed {
  events: ExactEvent[]
  /** number of events received */
  count: number
  isLoaded: boolean
}

/** The list at the time of the pause. */
interface FrozenList {
  events: ExactEvent[]
  /** number of events received before the pause */
  count: number
}

const NOTHING: Feed = { events: [], count: 0, isLoaded: false }

/** @param filters changing them restarts the stream */
export function useLive(filters: FilterValues): Live {
  const key = JSON.stringify(filters)
  const [feed, setFeed] = useState(NOTHING)
  const [status, setStatus] = useState<{ state: LiveState; error: Error | null }>({ state: 'connecting', error: null })
  const [frozen, setFrozen] = useState<FrozenList | null>(null)
  useEffect(() => {
    const stop = new AbortController()
    setFeed(NOTHING)
    setFrozen(null)
    const listener = {
      onLatest: (read: Parameters<typeof mergeLatest<ExactEvent>>[1], seen: string) => {
        const added = read.events.filter(({ eventId }) => eventId > seen).length
        setFeed(({ events, count }) => {
          return { events: mergeLatest(events, read, seen, MAX_EVENTS), count: count + added, isLoaded: true }
        })
      },
      onEvents: (added: ExactEvent[]) => {
        setFeed((before) => {
          return {
            ...before,
            events: addNewEvents(before.events, added, MAX_EVENTS),
            count: before.count + added.length,
          }
        })
      },
      onState: (state: LiveState, error: Error | null) => setStatus({ state, error }),
    }
    void followEvents(toFilter(JSON.parse(key)), listener, stop.signal)
    return () => stop.abort()
  }, [key])

  const change: Live['change'] = (eventId, event) => {
    const replace = (events: ExactEvent[]) => replaceEvent(events, eventId, event)
    setFeed((before) => ({ ...before, events: replace(before.events) }))
    setFrozen((before) => before && { ...before, events: replace(before.events) })
  }
  return {
    events: frozen?.events ?? feed.events,
    ...status,
    isLoaded: feed.isLoaded,
    isPaused: frozen !== null,
    waiting: frozen ? feed.count - frozen.count : 0,
    pause: () => setFrozen({ events: feed.events, count: feed.count }),
    resume: () => setFrozen(null),
    change,
  }
}

function toFilter({ event, user, property, value }: FilterValues): LiveFilter {
  return {
    event,
    distinctId: user,
    ...(property && { isMatch: ({ text }) => matchesProperty(text, { name: property, value }) }),
  }
}
