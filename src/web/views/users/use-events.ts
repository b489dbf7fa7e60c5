import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { type ExactEvent, readEvents } from '../../api/events.js'
import { useRecovery } from '../../lib/use-recovery.js'
import { type Strand, takeFalling } from './merge-descending.js'

/** Of each name, so many are read at a time. */
const LIMIT = 50
/** A read may find nothing within its time, and say where to go on. */
const MAX_ROUNDS = 5

interface NameStrand extends Strand<ExactEvent> {
  name: string
  /** where its next read begins; null before the first one */
  cursor: string | null
}

/** The events of a user, in the order of their acceptance, the last first. */
export interface UserEvents {
  events: ExactEvent[]
  hasMore: boolean
  isLoading: boolean
  error: Error | null
  readMore: () => void
  /** puts another event in the place of one; null removes it */
  change: (eventId: string, event: ExactEvent | null) => void
}

/** @param names of the user; the events of all of them are one list */
export function useEvents(names: string[]): UserEvents {
  const key = JSON.stringify(names)
  const [events, setEvents] = useState<ExactEvent[]>([])
  const [strands, setStrands] = useState<NameStrand[]>([])
  const [isLoading, setLoading] = useState(true)
  const [error, setError] = useState<Error | null>(null)
  const stop = useRef(new AbortController())

  const read = useCallback(async (from: NameStrand[]) => {
    const { signal } = stop.current
    setLoading(true)
    setError(null)
    try {
      const { taken, rest } = await readOn(from, signal)
      setEvents((before) => [...before, ...taken])
      setStrands(rest)
    } catch (failure) {
      if (!signal.aborted) setError(failure as Error)
    }
    if (!signal.aborted) setLoading(false)
  }, [])
  useEffect(() => {
    stop.current = new AbortController()
    const names: string[] = JSON.parse(key)
    const first = names.map((name) => ({ name, cursor: null, items: [], isOver: false }))
    setEvents([])
    setStrands(first)
    void read(first)
    return () => stop.current.abort()
  }, [key, read])

  useRecovery({ error, isLoading }, () => void read(strands))
  return {
    events,
    hasMore: strands.some(({ isOver, items }) => !isOver || items.length > 0),
    isLoading,
    error,
    readMore: () => void read(strands),
    change: (eventId, event) => {
      setEvents((before) => before.flatMap((one) => (one.eventId !== eventId ? [one] : event ? [event] : [])))
    },
  }
}

async function readOn(
  strands: NameStrand[],
  signal: AbortSignal,
): Promise<{ taken: ExactEvent[]; rest: NameStrand[] }> {
  let filled = strands
  for (let round = 0; round < MAX_ROUNDS; round++) {
    filled = await Promise.all(filled.map((strand) => fill(strand, signal)))
    signal.throwIfAborted()
    const { taken, rest } = takeFalling(filled)
    filled = filled.map((strand, i) => ({ ...strand, items: rest[i]?.items ?? [] }))
    if (taken.length > 0 || filled.every(({ isOver }) => isOver)) return { taken, rest: filled }
  }
  return { taken: [], rest: filled }
}

async function fill(strand: NameStrand, signal: AbortSignal): Promise<NameStrand> {
  const { name, cursor, items, isOver } = strand
  if (isOver || items.length > 0) return strand
  const parameters = { distinct_id: name, order: 'desc', limit: String(LIMIT), ...(cursor !== null && { cursor }) }
  const { events, next } = await readEvents(parameters, signal)
  return { name, items: events, cursor: next, isOver: next === null }
}
