import { createHash } from 'node:crypto'
import type { Call, Fact, Session, World } from './data.js'
import { matches, type SessionsDefinition } from './filter.js'
import { compareTexts, type Value } from './json.js'
import { isPageView } from './pages.js'
import { durationOf, type Stretch } from './time.js'

const DAY_MS = 86_400_000

/** An event, or the start of a session of the calls. */
interface Moment {
  at: number
  id: string
  fact?: Fact
  call?: Call
}

/**
 * The events of a project, each with its session, and one more event for each session, all in order: a session comes
 * before the events at the instant of its start.
 */
export function withSessions(
  { facts, calls, project }: World,
  definition: SessionsDefinition,
  { start, end }: Stretch,
  zone: string,
): Fact[] {
  const isNear = (at: number) => at >= start - DAY_MS && at < end + DAY_MS
  const near = facts.filter(({ timestamp }) => isNear(timestamp))
  const sessions =
    definition === 'id'
      ? sessionsById(
          near,
          calls.filter(({ startedAt }) => isNear(startedAt)),
        )
      : sessionsByGap(near, definition, zone)
  const own = new Map(sessions.flatMap((session) => session.events.map((fact) => [fact, session] as const)))
  const events = facts.map((fact) => ({ ...fact, session: own.get(fact) ?? null }))
  return [...events, ...sessions.map((session) => asEvent(session, project))].sort(
    (a, b) =>
      a.timestamp - b.timestamp || Number(b.isSession) - Number(a.isSession) || compareTexts(orderOf(a), orderOf(b)),
  )
}

/** Sessions that begin at the same time have a fixed, but meaningless order. */
function orderOf({ isSession, eventId, session }: Fact): string {
  return isSession
    ? createHash('md5')
        .update(session?.id ?? '')
        .digest('hex')
    : eventId
}

function asEvent(session: Session, project: World['project']): Fact {
  return {
    eventId: '',
    event: '$session',
    distinctId: session.distinctId,
    timestamp: session.start,
    user: session.user,
    properties: null,
    profile: session.profile,
    sessionId: session.id,
    context: contextOf(session),
    project,
    isSession: true,
    session,
  }
}

/** From the calls, or else from the first event that has one. */
function contextOf({ call, events }: Session): Map<string, Value> {
  if (call && call.context.size > 0) return call.context
  return events.find(({ context }) => context.size > 0)?.context ?? new Map()
}

function sessionsById(facts: Fact[], calls: Call[]): Session[] {
  const moments = new Map<string, Moment[]>()
  const add = (id: string, moment: Moment) => moments.set(id, [...(moments.get(id) ?? []), moment])
  for (const call of calls) add(call.sessionId, { at: call.startedAt, id: '', call })
  for (const fact of facts) {
    if (fact.sessionId !== null) add(fact.sessionId, { at: fact.timestamp, id: fact.eventId, fact })
  }
  return [...moments].flatMap(([id, all]) => cut(all, DAY_MS).map((some) => sessionOf(id, some)))
}

function sessionsByGap(facts: Fact[], { gap, where }: Exclude<SessionsDefinition, 'id'>, zone: string): Session[] {
  const moments = new Map<string, Moment[]>()
  for (const fact of facts) {
    if (fact.user === null || !matches(where, fact, zone)) continue
    const moment = { at: fact.timestamp, id: fact.eventId, fact }
    moments.set(fact.user, [...(moments.get(fact.user) ?? []), moment])
  }
  return [...moments.values()].flatMap((all) => cut(all, durationOf(gap)).map((some) => sessionOf(null, some)))
}

/** Cuts where neighbours are further apart than this. */
function cut(moments: Moment[], gapMs: number): Moment[][] {
  const parts: Moment[][] = []
  let last = Number.NEGATIVE_INFINITY
  for (const moment of moments.sort((a, b) => a.at - b.at || compareTexts(a.id, b.id))) {
    if (moment.at - last > gapMs) parts.push([])
    parts.at(-1)?.push(moment)
    last = moment.at
  }
  return parts
}

function sessionOf(id: string | null, moments: Moment[]): Session {
  const events = moments.flatMap(({ fact }) => fact ?? [])
  const call = moments.find((moment) => moment.call)?.call ?? null
  const last = events.at(-1)
  const instants = [...moments.map(({ at }) => at), ...(call ? [call.endedAt ?? call.updatedAt] : [])]
  const user = last ? last.user : (call?.user ?? null)
  return {
    id,
    start: Math.min(...instants),
    end: Math.max(...instants),
    user,
    distinctId: user ?? '$anonymous',
    profile: (last ? last.profile : call?.profile) ?? null,
    events,
    pages: events.filter(isPageView),
    call,
  }
}
