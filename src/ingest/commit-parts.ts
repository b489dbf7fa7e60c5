import { ApiError, idempotencyConflict, tooManyRequestKeys } from '../contract/errors.js'
import { msUntilNextBucket } from '../journal/idempotency-memory.js'
import type { Append, IdempotencyKey, Outcome, Write } from '../journal/journal.js'
import { given } from '../lib/given.js'
import type { Histogram } from '../lib/histogram.js'
import type { SentIds } from '../model/insert-id.js'
import { laterOf, type Position, START } from '../model/position.js'
import { type Sender, senderName } from '../model/sender.js'

/** Where the events of an appended request are: the entry, and the index of the first event in it. */
export interface Appended {
  position: Position
  index: number
  /** id of the journal that has the entry */
  journalId: number
}

/** Counts since the start. */
export interface CommitMetrics {
  /** events that are durable in the journal; a repeated request counts once */
  accepted: number
  /** events that were not appended, as their `insert_id` was known */
  repeated: number
  /** refused events by error code; after `internal` they may be in the journal nevertheless */
  refused: Record<'overloaded' | 'unavailable' | 'internal', number>
  /** those of the overloaded whose sender had filled its own share, while there was room for others */
  overShare: number
  /** duration of the writes that succeeded */
  writeSeconds: Histogram
}

interface Waiting<Result> {
  bytes: number
  resolve(result: Result): void
  reject(error: unknown): void
}

export interface WaitingEvent extends Waiting<Appended | null> {
  sender: Sender
  body: Buffer
  /** its id; null if the event has none */
  insertId: SentIds | null
  /** of its request; null if that has none, or the event has an insert_id */
  key: IdempotencyKey | null
}

/** An outcome, and the id of the journal that executed the write, which may be that of another lane. */
export interface Written {
  outcome: Outcome
  journalId: number
}

export interface WaitingWrite extends Waiting<Written> {
  write: Write
}

/** What one journal write commits. `batch` is one append for each of `events`, then `writes`; outcomes have its order. */
export interface Group {
  /** by sender: the events of each become one entry */
  events: WaitingEvent[][]
  writes: WaitingWrite[]
  batch: Write[]
  written: Promise<Outcome[] | { error: unknown }>
}

/** Who sends a write. */
export function senderOfWrite(write: Write): Sender {
  return write.type === 'reserve' ? write.idempotencyKey.sender : write
}

export function eventsOf(write: Write): number {
  return write.type === 'append' && write.kind !== 'rejected' ? write.count : 0
}

/** Whether any lane may take a write. Idempotency keys and insert_ids each belong to the lane that remembers them. */
export function isMovable(write: Write): write is Append {
  return write.type === 'append' && !write.idempotencyKey && !write.insertIds && !write.eventKeys
}

/**
 * The greatest position among the outcomes; START if there is none. Repeated requests count: another process may have
 * executed them, and the client's next request may go to a lane that has not been told their position.
 */
export function lastOf(outcomes: Outcome[]): Position {
  let last = START
  for (const outcome of outcomes) {
    if ('position' in outcome) last = laterOf(last, outcome.position)
    if ('refused' in outcome && outcome.refused) last = laterOf(last, lastOf(outcome.refused))
  }
  return last
}

export function refusalOf(error: unknown): keyof CommitMetrics['refused'] {
  const code = error instanceof ApiError ? error.code : null
  return code === 'overloaded' || code === 'unavailable' ? code : 'internal'
}

/** Ends the message of a refused write. The same refusal of a read comes without it. */
export const NOTHING_STORED = ' Nothing was stored.'

/**
 * Adds NOTHING_STORED to the error of a write that certainly stored nothing; returns any other error unchanged.
 * @param prefix names the lane, if there are several
 */
export function asRefusedWrite(error: unknown, prefix = ''): unknown {
  if (!(error instanceof ApiError) || refusalOf(error) === 'internal' || error.message.endsWith(NOTHING_STORED))
    return error
  const { code, details, retryAfter, limit } = error
  const more = { cause: error, ...given({ details, retryAfter, limit }) }
  return new ApiError(code, `${prefix}${error.message}${NOTHING_STORED}`, more)
}

/** Events with insert_ids, and those with keys, form groups of their own, because other lanes cannot take those (see `isMovable`). */
export function groupBySender(events: WaitingEvent[]): WaitingEvent[][] {
  const plain = new Map<string, WaitingEvent[]>()
  const identified = new Map<string, WaitingEvent[]>()
  const keyed = new Map<string, WaitingEvent[]>()
  for (const event of events) {
    const { sender, insertId, key } = event
    const groups = insertId ? identified : key ? keyed : plain
    const name = senderName(sender)
    const group = groups.get(name)
    if (group) group.push(event)
    else groups.set(name, [event])
  }
  return [...plain.values(), ...identified.values(), ...keyed.values()]
}

/** Tells the events of an entry what became of them. @param journalId of the journal that wrote the entry */
export function settleEvents(events: WaitingEvent[], outcome: Outcome | undefined, journalId: number): void {
  const { known, refused } = outcome && 'known' in outcome ? outcome : {}
  const skipped = new Map(known?.map((index, i) => [index, refused?.[i] ?? null]))
  for (const [index, { resolve, reject }] of events.entries()) {
    const refusal = skipped.get(index)
    try {
      if (refusal) resolve(placeOf(refusal, journalId))
      else resolve(refusal === null ? null : { position: positionOf(outcome), index, journalId })
    } catch (error) {
      reject(error)
    }
  }
}

/**
 * Where the first event of an append with this outcome is; for a repeated request, the event of its first execution.
 * @param journalId of the journal that returned the outcome
 * @throws as `positionOf`
 */
export function placeOf(outcome: Outcome, journalId: number): Appended {
  const position = positionOf(outcome)
  if (outcome.status !== 'repeated') return { position, index: 0, journalId }
  // A request from before a change of the layout may be remembered in another lane than it was written in.
  return { position, index: outcome.index ?? 0, journalId: outcome.journalId ?? journalId }
}

/** @throws ApiError `idempotency_conflict` or `rate_limited` if the idempotency key says so */
export function positionOf(outcome: Outcome | undefined): Position {
  if (outcome?.status === 'done' || outcome?.status === 'repeated') return outcome.position
  if (outcome?.status === 'mismatch') throw idempotencyConflict()
  if (outcome?.status === 'limited') throw tooManyRequestKeys(msUntilNextBucket(Date.now()))
  throw new Error(`the journal returned ${outcome?.status ?? 'nothing'} for an append`)
}
