import { ApiError, type ErrorDetail } from '../contract/errors.js'
import { MAX_DETAILS } from '../contract/validation.js'
import { readJson } from '../json/value.js'
import { insertIdAt } from '../model/insert-id.js'
import { findDigests, findKey, makeRequestIds, type RequestIds } from '../model/request-ids.js'
import { ScannedBody } from '../model/scanned-body.js'
import type { Sender } from '../model/sender.js'
import type { ParsedBody } from '../model/verbatim.js'

/**
 * The time since which a project's events are kept, epoch ms; undefined: all are.
 * @param at when, epoch ms; a time in the future means now; default: now
 */
export type KeptSince = (projectId: string, at?: number) => number | undefined

/** Explains the refusal of an event that is past its project's retention. */
export function tooOldReason(since: number): string {
  return `is before the earliest time for which the project keeps events: ${new Date(since).toISOString()}`
}

/** The events of a request that are past its project's retention. */
export interface ExpiredEvents {
  indexes: number[]
  /** `too_old`, and names the events */
  error: ApiError
}

/**
 * Finds the events of a request that have already expired, so that they would be stored but never seen. It reads the
 * body, but only in projects whose events expire.
 * @param since see `KeptSince`
 * @param raw the body
 */
export function findExpired(
  since: number | undefined,
  raw: Buffer,
  body: ScannedBody | ParsedBody,
): ExpiredEvents | null {
  if (since === undefined) return null
  const times =
    body instanceof ScannedBody ? readTimes(raw, body) : body.events.map(({ timestamp }) => timestamp ?? null)
  return findOlder(since, times, (i) => (body.isBatch ? `/events/${i}/timestamp` : '/timestamp'))
}

/** The journals' memory of earlier requests. */
export interface RequestMemory {
  isRepetition(sender: Sender, ids: RequestIds): Promise<boolean>
}

/**
 * Refuses a request with expired events, unless they were accepted before they expired: a repetition gets the answer of
 * the first request, and stores nothing.
 * @param ids of the request and all its events
 * @throws ApiError `too_old`; `unavailable`, `overloaded` if a journal cannot be asked
 */
export async function refuseExpired(
  { indexes, error }: ExpiredEvents,
  memory: RequestMemory,
  sender: Sender,
  ids: RequestIds,
): Promise<void> {
  const digests = findDigests(ids)
  const expired = digests && Buffer.concat(indexes.map((i) => insertIdAt(digests, i)))
  if (!(await memory.isRepetition(sender, makeRequestIds(findKey(ids), expired)))) throw error
}

function readTimes(raw: Buffer, { isBatch }: ScannedBody): (number | null)[] {
  const body = readJson(raw)
  const events = isBatch ? (body?.member('events')?.elements() ?? []) : [body]
  return events.map((event) => (event?.member('timestamp')?.value as number | null | undefined) ?? null)
}

function findOlder(
  since: number,
  times: readonly (number | null)[],
  toPath: (i: number) => string,
): ExpiredEvents | null {
  const message = tooOldReason(since)
  const indexes = times.flatMap((time, i) => (time !== null && time < since ? [i] : []))
  const details: ErrorDetail[] = indexes.slice(0, MAX_DETAILS).map((i) => ({ path: toPath(i), message }))
  const [first] = details
  if (!first) return null
  const advice = 'Keep events for longer in the project’s settings, or leave out older events.'
  return { indexes, error: new ApiError('too_old', `${first.path.slice(1)} ${message}. ${advice}`, { details }) }
}
