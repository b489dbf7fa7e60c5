import { DAY_MS, parseDuration } from '../../contract/durations.js'
import type { SessionsDefinition } from '../../contract/questions.js'
import type { Session } from '../../contract/responses.js'
import { formatDay } from './format.js'

/** The fields of an event that place it in the timeline. */
interface Placed {
  /** a UUIDv7 with the time of acceptance */
  eventId: string
  distinct_id: string
  timestamp: number
  session_id?: string
}

/** What has been loaded of a user. */
interface Loaded<E> {
  /** those accepted last */
  events: readonly E[]
  /** whether earlier accepted ones exist */
  hasMore: boolean
  /** by gap: ids of the events that the project's filter leaves out */
  leftOut: ReadonlySet<string>
  /** by id: the sessions of the session calls */
  calls: readonly Session[]
}

/** The events of a session, or consecutive ones without a session. */
export interface Visit<E> {
  isSession: boolean
  /** null unless sessions are separated by id */
  sessionId: string | null
  /** the latest first */
  events: E[]
  /** epoch ms; session calls count, so that heartbeats give even a visit of a single page a length */
  start: number
  end: number
  /** whether its first events may not have been loaded; by id, an estimate */
  mayBeginEarlier: boolean
}

/** A day in the time zone of the project. */
export interface Day<E> {
  /** as displayed */
  name: string
  visits: Visit<E>[]
}

/** An event, or the session of a session call. */
interface Moment<E> {
  at: number
  until: number
  /** what its session is found by; null without a session */
  key: string | null
  event: E | null
}

/** The distinct_id of events without a user, which have no sessions by gap. */
const ANONYMOUS = '$anonymous'

/** t.js begins another session after a pause of this length, and so do most other clients. */
const USUAL_PAUSE_MS = 30 * 60_000

/**
 * Groups the events of a user by day and session, the latest first, with the sessions that questions count. A session
 * is on the day that it started on.
 */
export function buildTimeline<E extends Placed>(loaded: Loaded<E>, definition: SessionsDefinition): Day<E>[] {
  const days: Day<E>[] = []
  for (const visit of buildVisits(loaded, definition)) {
    const name = formatDay(visit.start)
    const day = days.at(-1)
    const last = day?.visits.at(-1)
    if (day?.name !== name) days.push({ name, visits: [visit] })
    else if (last && !last.isSession && !visit.isSession) last.events.push(...visit.events)
    else day.visits.push(visit)
  }
  return days
}

/** The earliest start of a session that one of the events may belong to, whole epoch ms; null without events. */
export function findSessionsFrom(events: readonly Placed[]): number | null {
  if (events.length === 0) return null
  const first = events.reduce((least, { timestamp }) => Math.min(least, timestamp), Number.POSITIVE_INFINITY)
  return Math.floor(first) - DAY_MS
}

/** The sessions, and each event without one, the latest start first. */
function buildVisits<E extends Placed>(loaded: Loaded<E>, definition: SessionsDefinition): Visit<E>[] {
  const gapMs = definition === 'id' ? null : (parseDuration(definition.gap) ?? 0)
  const farMs = gapMs ?? DAY_MS
  const pauseMs = gapMs ?? USUAL_PAUSE_MS
  const loadedSince = findLoadedSince(loaded)
  const visits: Visit<E>[] = []
  const open = new Map<string, Visit<E>>()
  const begun = new Set<Visit<E>>()
  for (const { at, until, key, event } of listMoments(loaded, definition)) {
    let visit = open.get(key ?? '')
    if (key === null || !visit || visit.start - at > farMs) {
      const sessionId = definition === 'id' ? key : null
      visit = { isSession: key !== null, sessionId, events: [], start: at, end: until, mayBeginEarlier: false }
      visits.push(visit)
      if (key !== null) open.set(key, visit)
    }
    if (event) visit.events.push(event)
    else begun.add(visit)
    visit.start = at
    visit.end = Math.max(visit.end, until)
    // Calls say when a session began. Without them, an event that is not loaded may belong to it if it can be within a
    // pause. By id, this is not certain: a client may keep an id over longer pauses, of up to a day. Such a session
    // seems to begin after the pause until the events before it are loaded.
    visit.mayBeginEarlier = visit.isSession && (begun.has(visit) ? at : at - pauseMs) <= loadedSince
  }
  return visits.filter(({ events }) => events.length > 0).sort((a, b) => b.start - a.start)
}

/** The latest first. */
function listMoments<E extends Placed>(loaded: Loaded<E>, definition: SessionsDefinition): Moment<E>[] {
  const ofEvents = loaded.events
    .toSorted((a, b) => (a.eventId < b.eventId ? 1 : -1))
    .map((event): Moment<E> => {
      const key = loaded.leftOut.has(event.eventId) ? null : findKey(event, definition)
      return { at: event.timestamp, until: event.timestamp, key, event }
    })
  const ofCalls = loaded.calls.map(({ session_id, started_at, updated_at, ended_at }): Moment<E> => {
    return { at: started_at, until: ended_at ?? updated_at, key: session_id, event: null }
  })
  return [...ofEvents, ...ofCalls].sort((a, b) => b.at - a.at)
}

function findKey({ session_id, distinct_id }: Placed, definition: SessionsDefinition): string | null {
  if (definition === 'id') return session_id ?? null
  return distinct_id === ANONYMOUS ? null : 'user'
}

/**
 * Events that were accepted later than this are loaded. So are those that happened later, unless a client's clock was
 * fast.
 */
function findLoadedSince({ events, hasMore }: Loaded<Placed>): number {
  if (!hasMore) return Number.NEGATIVE_INFINITY
  const [first = ''] = events.map(({ eventId }) => eventId).sort()
  return Number.parseInt(first.replace('-', '').slice(0, 12), 16)
}
