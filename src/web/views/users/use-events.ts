import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { findMatches } from '../../api/answers.js'
import { type ExactEvent, listEvents } from '../../api/events.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { useRecovery } from '../../hooks/use-recovery.js'
import { replaceEvent } from '../../lib/merge-events.js'
import { getProjectSettings } from '../../lib/project-settings.js'
import { mergeDescending, type PartialList } from './merge-descending.js'

/** Page size per name. */
const LIMIT = 50
/** A read may time out without results and return a cursor. */
const MAX_ROUNDS = 5

interface NamedList extends PartialList<ExactEvent> {
  name: string
  /** cursor of the next read; null before the first one */
  cursor: string | null
}

/** The events of a user in descending order of acceptance. */
export interface UserEvents {
  events: ExactEvent[]
  /**
   * ids of the events that belong to no session, because the project's definition filters them out, or because the
   * answer to that is still missing
   */
  leftOut: ReadonlySet<string>
  hasMore: boolean
  isLoading: boolean
  error: Error | null
  readMore: () => void
  /** replaces an event; null removes it */
  change: (eventId: string, event: ExactEvent | null) => void
}

/** @param names of the user, whose events are merged into one list */
export function useUserEvents(names: string[]): UserEvents {
  const key = JSON.stringify(names)
  const [events, setEvents] = useState<ExactEvent[]>([])
  const [lists, setLists] = useState<NamedList[]>([])
  const [isLoading, setLoading] = useState(true)
  const [error, setError] = useState<Error | null>(null)
  const stop = useRef(new AbortController())

  const read = useCallback(async (from: NamedList[]) => {
    const { signal } = stop.current
    setLoading(true)
    setError(null)
    try {
      const { merged, rest } = await readNextEvents(from, signal)
      setEvents((before) => [...before, ...merged])
      setLists(rest)
    } catch (failure) {
      if (!signal.aborted) setError(failure as Error)
    }
    if (!signal.aborted) setLoading(false)
  }, [])
  useEffect(() => {
    stop.current = new AbortController()
    const names: string[] = JSON.parse(key)
    const first = names.map((name) => ({ name, cursor: null, items: [], isComplete: false }))
    setEvents([])
    setLists(first)
    void read(first)
    return () => stop.current.abort()
  }, [key, read])

  useRecovery({ error, isLoading }, () => void read(lists))
  return {
    events,
    leftOut: useLeftOut(events),
    hasMore: lists.some(({ isComplete, items }) => !isComplete || items.length > 0),
    isLoading,
    error,
    readMore: () => void read(lists),
    change: (eventId, event) => setEvents((before) => replaceEvent(before, eventId, event)),
  }
}

async function readNextEvents(
  lists: NamedList[],
  signal: AbortSignal,
): Promise<{ merged: ExactEvent[]; rest: NamedList[] }> {
  let filled = lists
  for (let round = 0; round < MAX_ROUNDS; round++) {
    filled = await Promise.all(filled.map((list) => fillList(list, signal)))
    signal.throwIfAborted()
    const { merged, rest } = mergeDescending<ExactEvent, NamedList>(filled)
    if (merged.length > 0 || rest.every(({ isComplete }) => isComplete)) return { merged, rest }
    filled = rest
  }
  return { merged: [], rest: filled }
}

/**
 * The ids of the events that the filter in the project's definition of sessions does not match, and of those for which
 * there is no answer, or not yet: a slow or failed question must not keep the user's events from being shown. All are
 * asked about again when one changes or more are loaded. An edit that questions do not see yet counts from the next
 * time on.
 */
function useLeftOut(events: readonly ExactEvent[]): ReadonlySet<string> {
  const { sessions } = getProjectSettings()
  const where = (sessions !== 'id' && sessions.where) || null
  const version = useVersion(events)
  const key = where && events.length > 0 ? JSON.stringify([where, version]) : null
  const { value } = useLoaded(key, async (signal) => where && (await findMatches(events, where, signal)))
  return useMemo(() => {
    const others = where ? events.filter((event) => !value?.has(event)) : []
    return new Set(others.map(({ eventId }) => eventId))
  }, [events, where, value])
}

/** A number that changes with the object. */
function useVersion(object: object): number {
  const last = useRef({ object, version: 0 })
  if (last.current.object !== object) last.current = { object, version: last.current.version + 1 }
  return last.current.version
}

async function fillList(list: NamedList, signal: AbortSignal): Promise<NamedList> {
  const { name, cursor, items, isComplete } = list
  if (isComplete || items.length > 0) return list
  const parameters = { distinct_id: name, order: 'desc', limit: String(LIMIT), ...(cursor !== null && { cursor }) }
  const { events, next } = await listEvents(parameters, signal)
  return { name, items: events, cursor: next, isComplete: next === null }
}
