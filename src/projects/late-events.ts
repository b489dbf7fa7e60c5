import { ApiError, type ErrorDetail } from '../contract/errors.js'
import { MAX_DETAILS } from '../contract/validation.js'
import { type JsonValue, readJson } from '../json/value.js'
import { ScannedBody } from '../model/scanned-body.js'

/** The time since which a project's events are kept, epoch ms; undefined: all are. */
export type KeptSince = (projectId: string) => number | undefined

/** Says why an event that is older than its project keeps events is refused. */
export function tooOldReason(since: number): string {
  return `is older than the project keeps events: the earliest is ${new Date(since).toISOString()}`
}

interface Timed {
  timestamp?: number | null
}

/**
 * Refuses an event that has already expired, because it would be stored but never seen. It reads the body, but only in
 * projects whose events expire.
 * @param since see `KeptSince`
 * @param raw the body
 * @param body parsed or scanned
 * @throws ApiError `too_old`
 */
export function refuseExpiredEvent(since: number | undefined, raw: Buffer, body: ScannedBody | Timed): void {
  if (since === undefined) return
  const time = body instanceof ScannedBody ? readTime(readJson(raw)) : body.timestamp
  refuseOlder(since, [time ?? null], () => '/timestamp')
}

/** Like `refuseExpiredEvent`, for `{"events":[…]}`. @throws ApiError `too_old` that names the events */
export function refuseExpiredEvents(
  since: number | undefined,
  raw: Buffer,
  body: ScannedBody | { events: readonly Timed[] },
): void {
  if (since === undefined) return
  const times =
    body instanceof ScannedBody
      ? (readJson(raw)?.member('events')?.elements() ?? []).map(readTime)
      : body.events.map(({ timestamp }) => timestamp ?? null)
  refuseOlder(since, times, (i) => `/events/${i}/timestamp`)
}

function readTime(event: JsonValue | null): number | null {
  return (event?.member('timestamp')?.value as number | null | undefined) ?? null
}

function refuseOlder(since: number, times: readonly (number | null)[], toPath: (i: number) => string): void {
  const message = tooOldReason(since)
  const details: ErrorDetail[] = []
  for (const [i, time] of times.entries()) {
    if (time !== null && time < since && details.length < MAX_DETAILS) details.push({ path: toPath(i), message })
  }
  const [first] = details
  if (!first) return
  const advice = 'Keep events for longer in the project’s settings, or leave out older events.'
  throw new ApiError('too_old', `${first.path.slice(1)} ${message}. ${advice}`, { details })
}
