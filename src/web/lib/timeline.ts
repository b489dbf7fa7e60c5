import type { Session } from '../../contract/responses.js'
import { formatDay } from './format.js'

/** The fields of an event that place it in the timeline. */
export interface Placed {
  eventId: string
  timestamp: number
  session_id?: string
}

/** Consecutive events of one session, or of none. */
export interface Visit<E> {
  sessionId: string | null
  events: E[]
}

/** A day in the time zone of the project. */
export interface Day<E> {
  /** epoch ms of one of its events */
  at: number
  visits: Visit<E>[]
}

/**
 * Groups events by day and session, the latest first. An event without a session id belongs to the session of its
 * time.
 */
export function buildTimeline<E extends Placed>(events: readonly E[], sessions: readonly Session[]): Day<E>[] {
  const sorted = events.toSorted((a, b) => b.timestamp - a.timestamp || (a.eventId < b.eventId ? 1 : -1))
  const days: Day<E>[] = []
  let today = ''
  for (const event of sorted) {
    const date = formatDay(event.timestamp)
    if (date !== today) days.push({ at: event.timestamp, visits: [] })
    today = date
    const visits = days.at(-1)?.visits ?? []
    const sessionId = event.session_id ?? findSessionAt(event.timestamp, sessions)
    const last = visits.at(-1)
    if (last && last.sessionId === sessionId) last.events.push(event)
    else visits.push({ sessionId, events: [event] })
  }
  return days
}

function findSessionAt(instant: number, sessions: readonly Session[]): string | null {
  const around = sessions.find((session) => {
    return session.started_at <= instant && instant <= (session.ended_at ?? session.updated_at)
  })
  return around?.session_id ?? null
}
