import { parseDuration } from '../../contract/durations.js'
import type { SessionsDefinition } from '../../contract/questions.js'
import type { Session } from '../../contract/responses.js'
import { formatDay } from './format.js'

/** The fields of an event that place it in the timeline. */
export interface Placed {
  eventId: string
  timestamp: number
  session_id?: string
}

/** Consecutive events of one session, or of none, the latest first. */
export interface Visit<E> {
  /** `none`: the events belong to no session */
  of: 'id' | 'gap' | 'none'
  /** null unless sessions are separated by id */
  sessionId: string | null
  events: E[]
}

const DAY_MS = 86_400_000

/** A day in the time zone of the project. */
export interface Day<E> {
  /** epoch ms of one of its events */
  at: number
  visits: Visit<E>[]
}

/**
 * Groups the events of a user by session and day, the latest first; a session is on the day that it started on. By id,
 * an event without a session id belongs to the session that was open at its time. By gap, the project's filter for the
 * events of sessions is ignored.
 */
export function buildTimeline<E extends Placed>(
  events: readonly E[],
  sessions: readonly Session[],
  definition: SessionsDefinition,
): Day<E>[] {
  const sorted = events.toSorted((a, b) => b.timestamp - a.timestamp || (a.eventId < b.eventId ? 1 : -1))
  const days: Day<E>[] = []
  for (const visit of buildVisits(sorted, sessions, definition)) {
    const at = visit.events.at(-1)?.timestamp ?? 0
    const last = days.at(-1)
    if (last && formatDay(last.at) === formatDay(at)) last.visits.push(visit)
    else days.push({ at, visits: [visit] })
  }
  return days
}

/** The earliest start of a session that one of the events may belong to, whole epoch ms; null without events. */
export function findSessionsFrom(events: readonly Placed[]): number | null {
  if (events.length === 0) return null
  const first = events.reduce((least, { timestamp }) => Math.min(least, timestamp), Number.POSITIVE_INFINITY)
  return Math.floor(first) - DAY_MS
}

/**
 * How long a visit lasted, ms. With session calls, heartbeats give even a visit of a single page a length. @param
 * sessions sessions of the session calls
 */
export function measureVisit({ sessionId, events }: Visit<Placed>, sessions: readonly Session[]): number {
  const [first, last] = [events.at(-1)?.timestamp ?? 0, events[0]?.timestamp ?? 0]
  const call = sessions.find((session) => {
    return (
      session.session_id === sessionId && first - DAY_MS <= session.started_at && session.started_at <= last + DAY_MS
    )
  })
  if (!call) return last - first
  return Math.max(last, call.ended_at ?? call.updated_at) - Math.min(first, call.started_at)
}

/** @param events the latest first */
function buildVisits<E extends Placed>(
  events: readonly E[],
  sessions: readonly Session[],
  definition: SessionsDefinition,
): Visit<E>[] {
  const gapMs = definition === 'id' ? 0 : (parseDuration(definition.gap) ?? 0)
  const visits: Visit<E>[] = []
  for (const event of events) {
    const sessionId = definition === 'id' ? (event.session_id ?? findSessionAt(event.timestamp, sessions)) : null
    const of = definition === 'id' ? (sessionId === null ? 'none' : 'id') : 'gap'
    const last = visits.at(-1)
    const after = last?.events.at(-1)?.timestamp ?? 0
    const isNext = {
      // An id that is reused much later begins another session, as in questions.
      id: last?.sessionId === sessionId && after - event.timestamp <= DAY_MS,
      gap: after - event.timestamp <= gapMs,
      none: formatDay(after) === formatDay(event.timestamp),
    }
    if (last?.of === of && isNext[of]) last.events.push(event)
    else visits.push({ of, sessionId, events: [event] })
  }
  return visits
}

function findSessionAt(instant: number, sessions: readonly Session[]): string | null {
  const around = sessions.find((session) => {
    return session.started_at <= instant && instant <= (session.ended_at ?? session.updated_at)
  })
  return around?.session_id ?? null
}
