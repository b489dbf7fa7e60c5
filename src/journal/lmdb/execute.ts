import { type Position, START } from '../../model/position.js'
import type { Append, IdempotencyKey, Outcome, Refused, Write } from '../journal.js'
import type { Draft } from './draft.js'
import type { LmdbInsertIds } from './insert-ids.js'
import type { MemoryClock } from './memory-clock.js'
import type { NewEntries } from './new-entries.js'
import type { LmdbRequests } from './requests.js'
import type { LmdbStates } from './states.js'
import type { LmdbTables } from './tables.js'
import { countRepeated } from './tallies.js'

/** What the embedded journal remembers, which decides the outcome of a write. */
export interface Remembered {
  requests: LmdbRequests
  insertIds: LmdbInsertIds
  states: LmdbStates
  tallies: LmdbTables['tallies']
  /** by which requests and ids expire; null: the time of each call */
  clock: MemoryClock | null
}

interface Call {
  /** epoch ms */
  now: number
  /** the last position assigned */
  last: () => Position
  draft: Draft
}

/** Executes the writes of a call: makes their entries, and their changes in a draft. */
export function execute(writes: Write[], remembered: Remembered, entries: NewEntries, call: Call): Outcome[] {
  const outcomes = writes.map((write) => {
    const outcome = executeOne(write, remembered, entries, call)
    countRepeated(remembered.tallies, write, outcome, call.draft)
    return outcome
  })
  remembered.insertIds.record(call.draft)
  return outcomes
}

function executeOne(
  write: Write,
  { requests, insertIds, states }: Remembered,
  entries: NewEntries,
  { now, last, draft }: Call,
): Outcome {
  const { idempotencyKey } = write
  const refusal = idempotencyKey ? requests.refusal(idempotencyKey, now, draft) : null
  if (refusal) return refusal
  const remember = (position: Position) => {
    if (idempotencyKey) requests.remember(idempotencyKey, position, 0, now, draft)
  }
  switch (write.type) {
    case 'append': {
      const fullness = entries.fullnessFor(write)
      if (fullness) return { status: 'full', fullness }
      if (write.eventKeys) return appendKeyed(write, write.eventKeys, requests, entries, { now, draft })
      const known = write.insertIds ? insertIds.take(write.insertIds, now, draft) : []
      if (known.length === write.count) {
        // As a reservation: the same body is recognised by its ids again, and another one is a mismatch.
        remember(START)
        return { status: 'known', known }
      }
      const position = entries.nextPosition()
      entries.append(write, position, known)
      remember(position)
      return { status: 'done', position, ...(known.length > 0 && { known }) }
    }
    case 'commit': {
      const known = write.insertIds ? insertIds.find(write.insertIds, now, draft) : []
      if (known.length > 0) return { status: 'known', known }
      if (!states.isExpected(write, now, draft)) return { status: 'conflict' }
      const fullness = entries.fullnessFor(write)
      if (fullness) return { status: 'full', fullness }
      if (write.insertIds) insertIds.take(write.insertIds, now, draft)
      const position = entries.commit(write)
      remember(position)
      states.put(write.stateKey, position, write.state, draft)
      return { status: 'done', position }
    }
    case 'reserve':
      remember(START)
      return { status: 'done', position: last() }
  }
}

/** Appends the events whose keys do not refuse them. A key that two of them have refuses the second. */
function appendKeyed(
  append: Append,
  eventKeys: IdempotencyKey[],
  requests: LmdbRequests,
  entries: NewEntries,
  { now, draft }: { now: number; draft: Draft },
): Outcome {
  const known: number[] = []
  const refused: Refused[] = []
  let position: Position | null = null
  for (const [index, key] of eventKeys.entries()) {
    const refusal = requests.refusal(key, now, draft)
    if (refusal) {
      known.push(index)
      refused.push(refusal)
    } else {
      position ??= entries.nextPosition()
      requests.remember(key, position, index, now, draft)
    }
  }
  if (position === null) return { status: 'known', known, refused }
  entries.append(append, position, known)
  return { status: 'done', position, ...(known.length > 0 && { known, refused }) }
}

/**
 * Removes expired requests and ids, and states that have not changed since they were stored. Call it within a transaction.
 * @param limit how many of each
 * @returns by how many bytes the cached states grow: zero or less
 */
export function sweep({ requests, insertIds, states, clock }: Remembered, now: number, limit: number): number {
  clock?.note(now)
  requests.forget(now, limit)
  insertIds.forget(now, limit)
  return states.sweep(now, limit)
}
