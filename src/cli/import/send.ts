import type { CallResult, Connection } from '../../client/connection.js'
import { TallyhouseError } from '../../client/errors.js'
import type { RetryPolicy } from '../../client/retry.js'
import { readJson } from '../../json/value.js'
import { NO_BATCH } from '../../model/batch-id.js'
import type { Batch, Reject } from './batches.js'

/** The events of an import that the service has accepted, recorded so that the import can be undone. */
export interface StoredIds {
  /** of the batches that contain them */
  ids: string[]
  /** events that may be stored in batches with unknown ids */
  uncertain: number
}

export interface Sent extends StoredIds {
  accepted: number
  /** events that were stored before */
  known: number
  /** rejected rows, including those that the service refused, in the order of their lines */
  rejects: Reject[]
}

/**
 * Refused requests by key: the indexes of the events that were refused, by reason. Empty if the request was refused as a
 * whole, and its events were sent in others.
 */
export type Refusals = Record<string, Record<string, number[]>>

/** The events of a request that an earlier run may have sent. */
export interface FoundIds extends StoredIds {
  /** indexes of those that must be sent again, because the service recognizes them */
  missing: Set<number>
}

/** How a batch is sent. */
export interface Sending {
  /** the `Idempotency-Key`, which is never used for other bytes */
  key: string
  /** epoch ms: events stored before this, recognized by their `insert_id`, are not stored again */
  storedBefore: number
  /**
   * called before each request; the policy lasts no longer than the service remembers the request's key
   * @throws Error if it no longer does
   */
  retry: () => RetryPolicy
  /** of this batch, by earlier runs */
  refusals: Refusals
  /** must be complete before other requests send the events of refused ones */
  recordRefused: (refusals: Refusals) => Promise<void>
  /** finds a request that an earlier run may have sent with a key that has expired; null if it must be sent */
  findSent?: (events: string[], lines: number[]) => Promise<FoundIds | null>
  signal: AbortSignal
}

/**
 * Sends the events of a batch until they are acknowledged. Events that the service refuses are removed and the others
 * sent; a body that is too large is halved. A retry after a crash sends the same parts with the same keys, even if the
 * service would accept them as a whole since.
 * @throws TallyhouseError if the batch fails permanently
 */
export async function sendBatch(
  connection: Connection,
  { body, count, lines, rejects }: Batch,
  { key, storedBefore, retry, refusals, recordRefused, findSent, signal }: Sending,
): Promise<Sent> {
  if (count === 0) return { accepted: 0, known: 0, ids: [], uncertain: 0, rejects }
  const total = { known: 0, ids: [] as string[], uncertain: 0 }
  const refused = await send(body, lines, key)
  const all = refused.length === 0 ? rejects : [...rejects, ...refused].sort((a, b) => a.line - b.line)
  return { accepted: count - total.known - refused.length, ...total, rejects: all }

  async function send(body: Buffer<ArrayBuffer>, lines: number[], key: string): Promise<Reject[]> {
    const earlier = refusals[key]
    if (earlier) return await sendOthers(body, lines, key, earlier)
    const found = findSent ? await findSent(readEventTexts(body), lines) : null
    if (found) {
      total.ids.push(...found.ids)
      total.uncertain += found.uncertain
      return await sendSome(body, lines, `${key}-ids`, (i) => found.missing.has(i))
    }
    try {
      const call = {
        method: 'POST',
        path: `/public/track/batch?stored_before=${storedBefore}`,
        body,
        idempotencyKey: key,
      } as const
      const result = await connection.call(call, { signal }, retry())
      const known = requireAll(result, lines.length)
      const { ids, uncertain } = readStoredIds(result, lines.length - known)
      total.known += known
      total.ids.push(...ids)
      total.uncertain += uncertain
      return []
    } catch (error) {
      if (!(error instanceof TallyhouseError)) throw error
      const faults = isTooMuch(error) || error.status === 400 ? readFaults(error, lines.length) : {}
      if (Object.keys(faults).length === 0 && !isTooMuch(error)) throw error
      await recordRefused({ [key]: faults })
      return await sendOthers(body, lines, key, faults)
    }
  }

  /** @param faults indexes of the refused events by reason; none: the body is halved */
  async function sendOthers(
    body: Buffer<ArrayBuffer>,
    lines: number[],
    key: string,
    faults: Record<string, number[]>,
  ): Promise<Reject[]> {
    const events = readEventTexts(body)
    const refused = Object.entries(faults).flatMap(([reason, indexes]) =>
      indexes.map((i) => ({ line: lines[i] ?? 0, reason, row: events[i] ?? '' })),
    )
    if (refused.length > 0) {
      const atFault = new Set(Object.values(faults).flat())
      return [...refused, ...(await sendSome(body, lines, `${key}-rest`, (i) => !atFault.has(i)))]
    }
    const half = events.length / 2
    return [
      ...(await sendSome(body, lines, `${key}-1`, (i) => i < half)),
      ...(await sendSome(body, lines, `${key}-2`, (i) => i >= half)),
    ]
  }

  async function sendSome(
    body: Buffer<ArrayBuffer>,
    lines: number[],
    key: string,
    isChosen: (index: number) => boolean,
  ): Promise<Reject[]> {
    const chosen = (_: unknown, i: number) => isChosen(i)
    const some = readEventTexts(body).filter(chosen)
    return some.length === 0 ? [] : await send(Buffer.from(`{"events":[${some.join(',')}]}`), lines.filter(chosen), key)
  }
}

/**
 * @returns how many events the service already had
 * @throws Error if it did not accept the others
 */
export function requireAll({ value: { accepted, skipped } }: CallResult, count: number): number {
  const known = typeof skipped === 'number' ? skipped : 0
  if (typeof accepted === 'number' && accepted + known === count) return known
  throw new Error(`The service accepted ${accepted} of ${count} events, but a batch must be all or nothing.`)
}

/**
 * Reads the batch ids from a response. They are unknown if a proxy removed the header.
 * @param accepted number of accepted events
 */
export function readStoredIds({ headers }: CallResult, accepted: number): StoredIds {
  const text = headers.get('x-batch-ids')
  if (text === null) return { ids: [], uncertain: accepted }
  return { ids: text === NO_BATCH ? [] : text.split(','), uncertain: 0 }
}

/** Returns the texts of the events in a body. */
function readEventTexts(body: Buffer): string[] {
  return (readJson(body)?.member('events')?.elements() ?? []).map(({ text }) => text)
}

/** Whether a smaller body may be accepted, because this one is too large or was refused as a whole. */
function isTooMuch({ status, code, details }: TallyhouseError): boolean {
  return status === 413 || (code === 'invalid_request' && details.length === 0)
}

/** Returns the indexes of refused events, by reason. */
function readFaults(error: TallyhouseError, count: number): Record<string, number[]> {
  const { details, message } = error
  if (isTooMuch(error)) return count === 1 ? { [message]: [0] } : {}
  const reasons = new Map<number, string>()
  for (const { path, message } of details) {
    const [, index, field] = /^\/events\/(\d+)(?:\/(.*))?$/.exec(path) ?? []
    if (index !== undefined) reasons.set(Number(index), `${field ?? 'The row'} ${message}.`)
  }
  const faults: Record<string, number[]> = {}
  for (const [index, reason] of reasons) faults[reason] = [...(faults[reason] ?? []), index]
  return faults
}
