import { ApiError, idempotencyConflict, tooManyRequestKeys } from '../contract/errors.js'
import { msUntilNextBucket } from '../journal/idempotency-memory.js'
import type { Append, Outcome, Write } from '../journal/journal.js'
import { given } from '../lib/given.js'
import type { Histogram } from '../lib/histogram.js'
import { laterOf, type Position, START } from '../model/position.js'

/** Where the events of an appended request are: the entry, and the index of the first one in it. */
export interface Appended {
  position: Position
  index: number
  /** of the journal that has the entry */
  journalId: number
}

/** Counts since the start. */
export interface CommitMetrics {
  /** events that are durable in the journal; a repeated request counts once */
  accepted: number
  /** events that were not appended, as their `insert_id` was known */
  repeated: number
  /** refused events by error code; after `internal` they may be in the journal all the same */
  refused: Record<'overloaded' | 'unavailable' | 'internal', number>
  /** duration of the writes that succeeded */
  writeSeconds: Histogram
}

interface Waiting<Result> {
  bytes: number
  resolve(result: Result): void
  reject(error: unknown): void
}

export interface WaitingEvent extends Waiting<Appended | null> {
  projectId: string
  body: Buffer
  /** INSERT_ID_BYTES; null if the event has none */
  insertId: Buffer | null
}

/** An outcome, and the journal that it is of: another lane may have taken the write. */
export interface Written {
  outcome: Outcome
  journalId: number
}

export interface WaitingWrite extends Waiting<Written> {
  write: Write
}

/** What one write commits. Its outcomes are those of the appends of `events`, then those of `writes`. */
export interface Group {
  /** by project: the events of each become one entry */
  events: WaitingEvent[][]
  writes: WaitingWrite[]
  batch: Write[]
  written: Promise<Outcome[] | { error: unknown }>
}

export function bytesOf(waiting: readonly { bytes: number }[]): number {
  let sum = 0
  for (const { bytes } of waiting) sum += bytes
  return sum
}

export function eventsOf(write: Write): number {
  return write.type === 'append' && write.kind !== 'rejected' ? write.count : 0
}

/** Whether any lane may take it: a key and ids are remembered in lanes of their own. */
export function isMovable(write: Write): write is Append {
  return write.type === 'append' && !write.idempotencyKey && !write.insertIds
}

/**
 * The greatest position that these writes are answered with; START if none is. A repeated one counts: another process may
 * have executed it, and what its client sends next may go to a lane that knows nothing of it.
 */
export function lastOf(outcomes: Outcome[]): Position {
  let last = START
  for (const outcome of outcomes) if ('position' in outcome) last = laterOf(last, outcome.position)
  return last
}

export function refusalOf(error: unknown): keyof CommitMetrics['refused'] {
  const code = error instanceof ApiError ? error.code : null
  return code === 'overloaded' || code === 'unavailable' ? code : 'internal'
}

/** What a write that was refused says behind the reason, which a read says alone. */
export const NOTHING_STORED = ' Nothing was stored.'

/** The error of a write that certainly stored nothing, as its caller should read it; any other error unchanged. */
export function asRefusedWrite(error: unknown): unknown {
  if (!(error instanceof ApiError) || refusalOf(error) === 'internal' || error.message.endsWith(NOTHING_STORED))
    return error
  const { code, details, retryAfter } = error
  return new ApiError(code, `${error.message}${NOTHING_STORED}`, { cause: error, ...given({ details, retryAfter }) })
}

/** Events with ids by themselves, as no other lane may take them. */
export function groupByProject(events: WaitingEvent[]): WaitingEvent[][] {
  const plain = new Map<string, WaitingEvent[]>()
  const identified = new Map<string, WaitingEvent[]>()
  for (const event of events) {
    const groups = event.insertId ? identified : plain
    const group = groups.get(event.projectId)
    if (group) group.push(event)
    else groups.set(event.projectId, [event])
  }
  return [...plain.values(), ...identified.values()]
}

export function positionOf(outcome: Outcome | undefined): Position {
  if (outcome?.status === 'done' || outcome?.status === 'repeated') return outcome.position
  if (outcome?.status === 'mismatch') throw idempotencyConflict()
  if (outcome?.status === 'limited') throw tooManyRequestKeys(msUntilNextBucket(Date.now()))
  throw new Error(`the journal returned ${outcome?.status ?? 'nothing'} for an append`)
}
