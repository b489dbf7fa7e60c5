import { type Position, START } from '../../model/position.js'
import type { Outcome, Write } from '../journal.js'
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
 * Executes one of the writes of a transaction.
 * @param now epoch ms
 * @param last the last position assigned
 * @returns the outcome, and by how many bytes the states grew
 */
export function execute(
  write: Write,
  { requests, insertIds, states }: Remembered,
  entries: NewEntries,
  { now, last }: { now: number; last: () => Position },
): { outcome: Outcome; grown: number } {
  const { idempotencyKey } = write
  const refusal = idempotencyKey ? requests.refusal(idempotencyKey, now) : null
  if (refusal) return { outcome: refusal, grown: 0 }
  const remember = (position: Position) => {
    if (idempotencyKey) requests.remember(idempotencyKey, position, now)
  }
  switch (write.type) {
    case 'append': {
      const known = write.insertIds ? insertIds.take(write.insertIds, now) : []
      if (known.length === write.count) {
        // A reservation: the same body is known again by its ids, and another one is a mismatch.
        remember(START)
        return { outcome: { status: 'known', known }, grown: 0 }
      }
      const position = entries.append(write, known)
      remember(position)
      return { outcome: { status: 'done', position, ...(known.length > 0 && { known }) }, grown: 0 }
    }
    case 'commit': {
      const known = write.insertIds ? insertIds.find(write.insertIds, now) : []
      if (known.length > 0) return { outcome: { status: 'known', known }, grown: 0 }
      if (!states.isExpected(write, now)) return { outcome: { status: 'conflict' }, grown: 0 }
      if (write.insertIds) insertIds.take(write.insertIds, now)
      const position = entries.commit(write)
      remember(position)
      return { outcome: { status: 'done', position }, grown: states.put(write.stateKey, position, write.state) }
    }
    case 'reserve':
      remember(START)
      return { outcome: { status: 'done', position: last() }, grown: 0 }
  }
}
