import { createHash } from 'node:crypto'
import type { Append, Commit, IdempotencyKey, Outcome } from '../../src/journal/journal.js'
import { INSERT_ID_BYTES, type SentIds } from '../../src/model/insert-id.js'
import type { Position } from '../../src/model/position.js'
import type { Sender } from '../../src/model/sender.js'

/** More bytes than any test writes. */
export const ALL = 1024 * 1024 * 1024
/** A state key, or the key of a request. */
export const key = (name: string) => createHash('sha256').update(name).digest('hex')

export function request(name: string, body: string): IdempotencyKey {
  return { key: key(name), fingerprint: key(body) }
}

/** The default sender of tests. */
export const SENDER: Sender = { projectId: 'p', keyClass: 'secret' }

/** Ids of events or changes. */
export const digests = (ids: Buffer | Buffer[]): Buffer => Buffer.concat([ids].flat())

/** Ids of a sender, not as part of a write. */
export const sent = (digests: Buffer | Buffer[], sender = SENDER): SentIds => {
  return { sender, digests: Buffer.concat([digests].flat()) }
}

/** The digest of an insert_id. */
export const idOf = (name: string) => Buffer.from(key(name), 'hex').subarray(0, INSERT_ID_BYTES)

export function append(text: string, more: Partial<Append> = {}): Append {
  return { type: 'append', projectId: 'p', keyClass: 'secret', count: 1, body: Buffer.from(text), ...more }
}

export function commit(name: string, expected: Position, state: string, more: Partial<Commit> = {}): Commit {
  const row = `{"n":"${name}"}`
  const of = { projectId: 'p', keyClass: 'secret' as const, kind: 'profiles' as const, stateKey: key(name) }
  return { type: 'commit', ...of, expected, readAt: Date.now(), state, row, ...more }
}

/** @throws Error if one of the writes was refused */
export function positions(outcomes: Outcome[]): Position[] {
  return outcomes.map((outcome) => {
    if (outcome.status !== 'done' && outcome.status !== 'repeated') throw new Error(`it is ${outcome.status}`)
    return outcome.position
  })
}
