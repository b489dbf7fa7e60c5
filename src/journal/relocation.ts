/**
 * What a change of the layout does to a journal, one lane at a time. A lane is asked for it by `tallyhouse lanes`, whatever
 * version of the layout its guard lets in:
 *
 *   closeIntake ──▶ drained by writers of the old version ──▶ raise, import ──▶ keepStates ──▶ open
 *
 * Every step can be repeated, also after a later one: a command that was killed starts anew with the first.
 */

import type { Position } from '../model/position.js'
import type { Depth } from './journal.js'

/** A journal as it is found. */
export interface JournalLook {
  /** part of the event ids that it gave out */
  id: number
  /** the version of the layout whose processes it lets in */
  layout: number
  /** the version that is being made, for which it takes no writes; null where intake is open */
  closedFor: number | null
  /** the last position assigned, or lifted to */
  appended: Position
  depth: Pick<Depth, 'entries' | 'bytes' | 'stateBytes' | 'oldestMs'>
}

/**
 * A request that is remembered, without its project. After a change every lane knows those of all lanes: that of a profile
 * change is looked for in the lane of the profile, that of events in the lane of the key.
 */
export interface RememberedRequest {
  /** of time, as `bucketAt` has it; for one of a version before 0.2, that in which it arrived */
  bucket: number
  /** the first KEY_BYTES of its digest */
  key: Buffer
  /** the first FINGERPRINT_BYTES */
  fingerprint: Buffer
  /**
   * START where it is only reserved (write type `reserve`): a commit with the same key and fingerprint is executed all the
   * same, in whichever lane, or a change would be lost whose process died between the two.
   */
  position: Position
  /**
   * The journal that assigned the position. One that has it from another lane keeps that, as the ids of the events that a
   * repeated request gets must be those of its first execution: `Outcome` of status `repeated` has it.
   */
  journalId: number
}

/** Ids of events and changes, which are remembered in the lane that `laneOfInsertId` says. */
export interface RememberedIds {
  /** of time, as `idBucketAt` has it */
  bucket: number
  /** INSERT_ID_BYTES each */
  ids: Buffer
}

/** A state that does not expire, as the store does not have it: its last change is a dead letter. */
export interface KeptState {
  stateKey: string
  version: Position
  state: string
}

export interface Relocation {
  /** null where there is no journal yet */
  look(): Promise<JournalLook | null>

  /** Creates the journal if there is none, for no version yet: nobody may use it before `open`. */
  create(): Promise<void>

  /** From now on every write is refused. What waits is still given to writers of the journal's own version. */
  closeIntake(version: number): Promise<void>

  /** Assigns only positions after this one, however far ahead of the clock. Leaves states and requests as they are. */
  raise(position: Position): Promise<void>

  /** All that have not expired, in pieces. */
  requests(): AsyncIterable<RememberedRequest[]>

  /**
   * Adds requests of another lane for the rest of their time; one that is known here, and is more than reserved, stays as
   * it is. They do not count towards the keys that a project may have.
   */
  addRequests(requests: RememberedRequest[]): Promise<void>

  /** All that have not expired, in pieces. */
  insertIds(): AsyncIterable<RememberedIds>

  /** Adds ids of another lane for the rest of their time. */
  addInsertIds(ids: RememberedIds): Promise<void>

  /** All that do not expire, in pieces. */
  states(): AsyncIterable<KeptState[]>

  /** Adds states of another lane; one that is here with the same or a later version stays as it is. */
  addStates(states: KeptState[]): Promise<void>

  /**
   * Removes the states that expire, as the store has them, and of those that do not the ones that another lane has got. So a
   * later change, which may give them back to this lane, finds none that is out of date.
   */
  keepStates(isOwn: (stateKey: string) => boolean): Promise<void>

  /** Lets processes of this version in, and no others. */
  open(version: number): Promise<void>

  close(): Promise<void>
}
