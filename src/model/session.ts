import type { Context } from '../contract/context.js'
import { ApiError } from '../contract/errors.js'
import { readText } from '../json/value.js'
import { formatProperties, type Properties, readProperties } from './properties.js'

/**
 * Maximum size of a session's properties, bytes. Anyone with the public key can write them, and each call writes all.
 */
export const MAX_SESSION_BYTES = 64 * 1024

/**
 * One session. Times are epoch milliseconds; `updatedAt` is the last call and never goes back, even if the clock does.
 */
export interface Session {
  distinctId: string
  state: 'active' | 'completed'
  properties: Properties
  /** The greatest duration that the client sent, in the client's own unit; null if it never sent one. */
  duration: number | null
  startedAt: number
  updatedAt: number
  endedAt: number | null
  /** from the first call that said something about its sender */
  context: Context
}

/** The fields of a call about a session, other than its properties. */
export interface SessionCall {
  /** epoch ms */
  now: number
  /** in the client's own unit; default: none */
  duration?: number | null
  /** of the request; default: it says nothing about its sender */
  context?: Context
}

/**
 * Creates the session, or merges the properties into the active one: a new value wins, a known name keeps its place. A
 * finite number named `duration` becomes the session's duration if it is greater, and also stays a property. The
 * parameter `duration` does the same without becoming a property.
 * @throws ApiError `session_owner_mismatch`, which takes precedence over `session_ended`
 */
export function startSession(
  session: Session | null,
  distinctId: string,
  properties: Properties | null,
  { now, duration = null, context = {} }: SessionCall,
): Session {
  const created: Session = {
    distinctId,
    state: 'active',
    properties: new Map(),
    duration: null,
    startedAt: now,
    updatedAt: now,
    endedAt: null,
    context: {},
  }
  return merge(session ?? created, distinctId, properties, { now, duration, context })
}

/**
 * A heartbeat: merges as `startSession` does, but creates nothing.
 * @throws ApiError `not_found`; `session_owner_mismatch`, which takes precedence over `session_ended`
 */
export function updateSession(
  session: Session | null,
  distinctId: string,
  properties: Properties | null,
  call: SessionCall,
): Session {
  return merge(requireSession(session), distinctId, properties, call)
}

/**
 * Completes the session. Returns the same object if it is completed already, so that an end may be retried.
 * @throws ApiError `not_found`, `session_owner_mismatch`
 */
export function endSession(session: Session | null, distinctId: string, now: number): Session {
  const current = requireOwner(requireSession(session), distinctId)
  if (current.state === 'completed') return current
  const endedAt = Math.max(current.updatedAt, now)
  return { ...current, state: 'completed', updatedAt: endedAt, endedAt }
}

/** The client's duration in its own unit, or the seconds from the start to the last call; never negative. */
export function measureDuration({ duration, startedAt, updatedAt }: Session): number {
  return duration ?? (updatedAt - startedAt) / 1000
}

/** The session as a JSON string, which the journal treats as opaque; contains the properties verbatim. */
export function formatSession({ properties, ...rest }: Session): string {
  return `${JSON.stringify(rest).slice(0, -1)},"properties":${formatProperties(properties)}}`
}

/** Parses the result of `formatSession`; the text is not validated. */
export function parseSession(state: string): Session {
  const rest = JSON.parse(state) as Omit<Session, 'properties'>
  return { ...rest, properties: readProperties(readText(state).member('properties')) }
}

function merge(
  session: Session,
  distinctId: string,
  properties: Properties | null,
  { now, duration: callDuration = null, context = {} }: SessionCall,
): Session {
  const current = requireOwner(session, distinctId)
  if (current.state === 'completed') {
    throw new ApiError('session_ended', 'The session has ended. Start a new one under another session_id.')
  }
  const sent = [durationIn(properties), callDuration].filter((duration) => duration !== null)
  return {
    ...current,
    properties: new Map([...current.properties, ...(properties ?? [])]),
    duration: sent.length === 0 ? current.duration : Math.max(current.duration ?? 0, ...sent),
    updatedAt: Math.max(current.updatedAt, now),
    context: Object.keys(current.context).length > 0 ? current.context : context,
  }
}

function durationIn(properties: Properties | null): number | null {
  // Number gives NaN for the JSON text of anything but a number.
  const duration = Number(properties?.get('duration'))
  return Number.isFinite(duration) ? duration : null
}

function requireSession(session: Session | null): Session {
  if (session) return session
  throw new ApiError('not_found', 'There is no session with this session_id. Start it first.')
}

function requireOwner(session: Session, distinctId: string): Session {
  if (session.distinctId === distinctId) return session
  throw new ApiError('session_owner_mismatch', 'The session was started under another distinct_id.')
}
