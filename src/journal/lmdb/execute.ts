import { type Position, START } from '../../model/position.js'
import type { Outcome, Write } from '../journal.js'
import type { Draft } from './draft.js'
import type { LmdbInsertIds } from './insert-ids.js'
import type { NewEntries } from './new-entries.js'
import type { LmdbRequests } from './requests.js'
import type { LmdbStates } from './states.js'

/** What the embedded journal remembers, and a write looks into. */
export interface Remembered {
  requests: LmdbRequests
  insertIds: LmdbInsertIds
  states: LmdbStates
}

/**
 * Executes one of the writes of a call, as far as a draft.
 * @param now epoch ms
 * @param last the last position assigned
 */
export function execute(
  write: Write,
  { requests, insertIds, states }: Remembered,
  entries: NewEntries,
  { now, last, draft }: { now: number; last: () => Position; draft: Draft },
): Outcome {
  const { idempotencyKey } = write
  const refusal = idempotencyKey ? requests.refusal(idempotencyKey, now, draft) : null
  if (refusal) return refusal
  const remember = (position: Position) => {
    if (idempotencyKey) requests.remember(idempotencyKey, position, now, draft)
  }
  switch (write.type) {
    case 'append': {
      const known = write.insertIds ? insertIds.take(write.insertIds, now, draft) : []
      if (known.length === write.count) {
        // A reservation: the same body is known again by its ids, and another one is a mismatch.
        remember(START)
        return { status: 'known', known }
      }
      const position = entries.append(write, known)
      remember(position)
      return { status: 'done', position, ...(known.length > 0 && { known }) }
    }
    case 'commit': {
      const known = write.insertIds ? insertIds.find(write.insertIds, now, draft) : []
      if (known.length > 0) return { status: 'known', known }
      if (!states.isExpected(write, now, draft)) return { status: 'conflict' }
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

/**
 * Removes requests and ids that are too old to be repeated, and states that have not changed since they were stored. Call
 * it within a transaction.
 * @param limit of each
 * @returns by how many bytes the states grow, so not above 0
 */
export function sweep({ requests, insertIds, states }: Remembered, now: number, limit: number): number {
  requests.forget(now, limit)
  insertIds.forget(now, limit)
  return states.sweep(now, limit)
}
