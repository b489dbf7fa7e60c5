/**
 * What `tallyhouse lanes set` does to the journals to change the layout, one lane at a time. It may open a journal
 * regardless of its guard:
 *
 *   closeIntake ──▶ drained by writers of the old version ──▶ raise, import ──▶ keepStates ──▶ open
 *
 * Every step can be repeated, even after a later one: a command that was killed starts again with the first step.
 */

import type { Position } from '../model/position.js'
import type { Sender } from '../model/sender.js'
import type { RequestValue } from './idempotency-memory.js'
import type { Depth, Tally } from './journal.js'

/** The current state of a journal. */
export interface JournalStatus {
  /** part of the event ids that it assigned */
  id: number
  /** number of the layout whose processes may use it */
  layout: number
  /** number of the layout that it is being changed to, during which it takes no writes; null if it takes writes */
  closedFor: number | null
  /** the last position that was assigned, or to which the journal was lifted */
  appended: Position
  depth: Pick<Depth, 'entries' | 'bytes' | 'stateBytes' | 'oldestMs'>
}

/**
 * A remembered request, without its project. After a change of the layout, every lane has the requests of all lanes,
 * because a profile change is looked up in the lane of the profile, and events in the lane of the key.
 */
export interface RememberedRequest extends RequestValue {
  /** bucket of time in which it arrived, see `bucketAt` */
  bucket: number
  /** the first KEY_BYTES of its digest */
  key: Buffer
}

/** Ids of events and changes, which are remembered in the lane that `findInsertIdLane` returns. */
export interface RememberedIds {
  sender: Sender
  /** bucket of time, see `idBucketAt` */
  bucket: number
  /** INSERT_ID_BYTES each */
  ids: Buffer
}

/** A state that does not expire because the store does not have it: its last change is a dead letter. */
export interface KeptState {
  stateKey: string
  version: Position
  state: string
}

export interface Relocation {
  /** Null if there is no journal yet. */
  readStatus(): Promise<JournalStatus | null>

  /** See `Journal.tally`. Null if there is no journal yet. */
  tally(): Promise<Tally | null>

  /** Creates the journal if there is none. It belongs to no layout yet, so no process may use it before `open`. */
  create(): Promise<void>

  /** Refuses every write from now on. Writers of the journal's current layout can still claim the waiting entries. */
  closeIntake(version: number): Promise<void>

  /**
   * Makes the journal assign only later positions, however far ahead of the clock. Leaves states and requests
   * unchanged.
   */
  raise(position: Position): Promise<void>

  /** All requests that have not expired, in pieces. */
  requests(): AsyncIterable<RememberedRequest[]>

  /**
   * Adds requests of another lane, which keep their expiry. A request that is known here, and not only reserved, is
   * left unchanged. Added requests do not count towards the keys that a project may have.
   */
  addRequests(requests: RememberedRequest[]): Promise<void>

  /** All ids that have not expired, in pieces. */
  insertIds(): AsyncIterable<RememberedIds>

  /** Adds ids of another lane, which keep their expiry. */
  addInsertIds(ids: RememberedIds): Promise<void>

  /** All states that do not expire, in pieces. */
  states(): AsyncIterable<KeptState[]>

  /** Adds states of another lane, unless this lane has the same or a later version. */
  addStates(states: KeptState[]): Promise<void>

  /**
   * Removes the states that expire, because the store has them, and those that now belong to another lane. Otherwise a
   * later change of the layout that returns them to this lane would find outdated states.
   */
  keepStates(isOwn: (stateKey: string) => boolean): Promise<void>

  /** Lets processes of this layout use the journal, and no others. */
  open(version: number): Promise<void>

  close(): Promise<void>
}
