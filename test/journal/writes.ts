import { createHash } from 'node:crypto'
import type { Append, Commit, Outcome } from '../../src/journal/journal.js'
import { INSERT_ID_BYTES, type SentIds } from '../../src/model/insert-id.js'
import type { Position } from '../../src/model/position.js'
import { type EntryIds, type EventIds, type IdempotencyKey, type KeyIds, NO_IDS } from '../../src/model/request-ids.js'
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

/** The ids of a request with a key. */
export const ofKey = (key: IdempotencyKey): KeyIds => ({ kind: 'request', key })

/** The ids of an entry that events of requests with these keys share. */
export const ofKeys = (...keys: IdempotencyKey[]): EntryIds => ({ kind: 'shared', keys })

/** The ids of a request whose events, or changes, have ids. */
export function ofEvents(ids: Buffer | Buffer[], key: IdempotencyKey | null = null): EventIds {
  return { kind: 'events', digests: Buffer.concat([ids].flat()), spans: null, key }
}

/** Ids of a sender, not as part of a write. */
export const sent = (digests: Buffer | Buffer[], sender = SENDER): SentIds => {
  return { sender, digests: Buffer.concat([digests].flat()) }
}

/** The digest of an insert_id. */
export const idOf = (name: string) => Buffer.from(key(name), 'hex').subarray(0, INSERT_ID_BYTES)

export function append(text: string, more: Partial<Append> = {}): Append {
  return { type: 'append', projectId: 'p', keyClass: 'secret', count: 1, body: Buffer.from(text), ids: NO_IDS, ...more }
}

export function commit(name: string, expected: Position, state: string, more: Partial<Commit> = {}): Commit {
  const row = `{"n":"${name}"}`
  const of = { projectId: 'p', keyClass: 'secret' as const, kind: 'profiles' as const, stateKey: key(name) }
  return { type: 'commit', ...of, expected, readAt: Date.now(), state, row, ids: NO_IDS, ...more }
}

/** @throws Error if one of the writes was refused */
export function positions(outcomes: Outcome[]): Position[] {
  return outcomes.map((outcome) => {
    if (outcome.status !== 'done' && outcome.status !== 'repeated') throw new Error(`it is ${outcome.status}`)
    return outcome.position
  })
}
