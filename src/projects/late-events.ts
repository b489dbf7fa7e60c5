import { ApiError } from '../contract/errors.js'
import { MAX_DETAILS } from '../contract/validation.js'
import { readJson } from '../json/value.js'
import { ScannedBody } from '../model/scanned-body.js'

/** From when on a project's events are kept, epoch ms; undefined: all are. */
export type KeptSince = (projectId: string) => number | undefined

/** Says why an event is refused that is older than its project keeps events. */
export function tooOldReason(since: number): string {
  return `is older than the project keeps events: the earliest is ${new Date(since).toISOString()}`
}

/**
 * Refuses a request with events that have expired already: they would be stored and never be seen. Costs a reading of
 * the body, but only in projects whose events expire.
 * @param since see `KeptSince`
 * @param raw the body of one event, or `{"events":[…]}`
 * @param body parsed or scanned
 * @throws ApiError `too_old` that names the events
 */
export function refuseExpired(
  since: number | undefined,
  raw: Buffer,
  body: ScannedBody | { timestamp?: number | null } | { events: readonly { timestamp?: number | null }[] },
): void {
  if (since === undefined) return
  const isBatch = body instanceof ScannedBody ? isBatchText(raw) : 'events' in body
  const times =
    body instanceof ScannedBody ? readTimes(raw) : 'events' in body ? body.events.map(getTime) : [getTime(body)]
  const message = tooOldReason(since)
  const details = []
  for (const [i, time] of times.entries()) {
    if (time === null || time >= since || details.length === MAX_DETAILS) continue
    details.push({ path: isBatch ? `/events/${i}/timestamp` : '/timestamp', message })
  }
  const [first] = details
  if (!first) return
  throw new ApiError(
    'too_old',
    `${first.path.slice(1)} ${message}. Keep events for longer in the project’s settings, or leave it out.`,
    {
      details,
    },
  )
}

function getTime({ timestamp }: { timestamp?: number | null }): number | null {
  return timestamp ?? null
}

function isBatchText(raw: Buffer): boolean {
  return readJson(raw)?.member('events') !== undefined
}

function readTimes(raw: Buffer): (number | null)[] {
  const body = readJson(raw)
  const events = body?.member('events')?.elements() ?? (body ? [body] : [])
  return events.map((event) => (event.member('timestamp')?.value as number | null | undefined) ?? null)
}
