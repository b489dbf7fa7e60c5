/**
 * The port to the journal, which holds accepted data until the store has it. Its writer takes the data out in blocks:
 *
 *                claim            INSERT            acknowledge
 *     waiting ──────────▶ frozen ──────────▶ stored ──────────▶ acknowledged: its entries are removed
 *                           │                  ▲
 *                   refused │                  │ INSERT of the rewritten entries
 *                           ▼                  │
 *                         shrunk ────────▶ rewritten        what was cut off is waiting again
 *                           ▲                  │
 *                           └──────────────────┤ refused again: bisected
 *                                              │ refused again, a single entry
 *                                              ▼
 *                                         dead letter ──────▶ acknowledged, without its states
 *
 * Each step is durable before the next one begins. A block that does not fit the memory of ClickHouse is also shrunk, as
 * long as nothing of it is stored or may still be. After a crash, or a takeover by another writer, the next claim finds:
 *
 * - waiting: nothing was sent to the store. The next block may have other limits.
 * - frozen or stored: the same block again, with `isRepeated`. Its INSERT sends the same bytes with the same token, and
 *   ClickHouse stores nothing twice.
 * - shrunk or rewritten: the shorter block, frozen as such. Rewritten bytes are not kept: the original is refused again
 *   and rewritten to the same bytes.
 * - dead letter: the block of that one entry; its token keeps the dead letter from being stored twice.
 * - acknowledged: the next block.
 *
 * A Redis that lost its last steps (at a power cut, or as a replica that lagged) may offer a block that is stored, or other
 * entries at its positions. `era` changes then, and the writer asks the store what it has before it inserts anything.
 */

import type { Position } from '../model/position.js'
import type { StateKind } from '../model/state-key.js'

/** What an entry holds, and so which table it goes to; `rejected` messages become dead letters. */
export type EntryKind = 'events' | 'rejected' | StateKind

/** Identifies a request that may be repeated: by its key; the fingerprint tells whether the body is the same, too. */
export interface IdempotencyKey {
  projectId: string
  /** SHA-256 of project and `Idempotency-Key`, hexadecimal */
  key: string
  /** SHA-256 of the body, hexadecimal */
  fingerprint: string
}

/** Events of one project, or what was rejected of them, as one entry. */
export interface Append {
  type: 'append'
  /** default: `events` */
  kind?: 'events' | 'rejected'
  projectId: string
  /** how many events `body` holds, at least 1 */
  count: number
  /** JSON `{"events":[…]}`, verbatim from the client */
  body: Buffer
  idempotencyKey?: IdempotencyKey
  /**
   * INSERT_ID_BYTES for each event, NO_INSERT_ID for one without. An event whose id is known is skipped, so that of all
   * events with one id only the first is stored.
   */
  insertIds?: Buffer
}

/** A new value of one profile or session, and its table row. */
export interface Commit {
  type: 'commit'
  kind: StateKind
  /** as `stateKeyOf` makes it */
  stateKey: string
  /** the version that the new value was computed from; START if there was none */
  expected: Position
  /** `StateReading.readAt` of the reading that gave that version, or that gave none before the store was read */
  readAt: number
  /** opaque to the journal; an empty text is a tombstone */
  state: string
  /** a JSON object without its version, which will be the position of the entry */
  row: string
  idempotencyKey?: IdempotencyKey
  /** INSERT_ID_BYTES for each change in it that has an id, all different: if one of them is known, nothing is written */
  insertIds?: Buffer
}

/**
 * Remembers an idempotency key without an entry, where the data of its request go to another journal; its outcome has the
 * last position that was assigned. A request with another fingerprint is a `mismatch` from then on; one with the same is
 * executed all the same, here as in that journal, as the process may have died before it wrote there.
 */
export interface Reserve {
  type: 'reserve'
  idempotencyKey: IdempotencyKey
}

export type Write = Append | Commit | Reserve

export type Outcome =
  /** `known`: indexes of the events that were skipped, as their ids are known; absent if none was */
  | { status: 'done'; position: Position; known?: number[] }
  /** the ids at these indexes are known, for an append those of all its events: nothing was written */
  | { status: 'known'; known: number[] }
  /**
   * the idempotency key is known: nothing was written, the position is that of the first request; `journalId` where
   * another journal assigned it, as before a change of the layout
   */
  | { status: 'repeated'; position: Position; journalId?: number }
  /** the idempotency key is known with another fingerprint: nothing was written */
  | { status: 'mismatch' }
  /** the idempotency key is new, and its project has reached the maximum: nothing was written */
  | { status: 'limited' }
  /** the state has, or may have had, another version than expected: nothing was written */
  | { status: 'conflict' }

export interface State {
  version: Position
  /** empty: deleted */
  state: string
}

export interface StateReading {
  /** by the journal's clock, epoch ms */
  readAt: number
  /** as StatesMark has it; null if there is none */
  mark: string | null
  /** in the order of the keys; null if the journal has none (the store may) */
  states: (State | null)[]
}

/**
 * A random text that is kept with the states, and vanishes in the same step as any of them that is removed before it
 * expires: by this service, or by a Redis that loses its keys. Hence, as long as a reading finds the mark that was there
 * before, every state that was written meanwhile is still here, or has been in the store for STATE_MEMORY_MS.
 */
export interface StatesMark {
  /** by the journal's clock, epoch ms */
  readAt: number
  /** null while states are being removed */
  mark: string | null
  /** the last entry at that time: the states of those up to it may have vanished before, those of later ones did not */
  madeAt: Position
}

export interface Entry {
  position: Position
  kind: EntryKind
  /** of the events; empty for the other kinds, whose rows name their project */
  projectId: string
  /** events, without those that are skipped, or rows */
  count: number
  /** time of acceptance by the journal's clock, epoch ms; the position is later if that clock was once fast */
  receivedAt: number
  /** events: JSON `{"events":[…]}`; rejected: as RejectedBody; the others: JSON objects joined by commas */
  body: Buffer
  /** rising indexes of events in `body` that are stored already; absent if there are none */
  skip?: number[]
}

/** A run of entries with fixed limits, so that a retry sends the same bytes. */
export interface Block {
  /** it was frozen before this claim, so its INSERT may have been attempted */
  isRepeated: boolean
  first: Position
  last: Position
  entries: Entry[]
}

/** A version of a state that is stored, so that it may expire in the journal. */
export interface StoredState {
  stateKey: string
  version: Position
}

export interface Progress {
  /** the last position assigned, or that this journal was lifted to */
  appended: Position
  /** everything up to here is in the store */
  stored: Position
  /** events of the given project after `stored` */
  pending: number
  /** how often events of the given project were deleted */
  deletions: number
}

/** The size of what waits for the store. */
export interface Depth {
  entries: number
  /** of the entries' bodies */
  bytes: number
  /** of the states, including those that are stored and have not expired */
  stateBytes: number
  /** how long the oldest entry has been waiting, ms; 0 if there is none */
  oldestMs: number
  /** writes are refused above this many bytes of both; varies with what else Redis holds, and may be negative */
  limitBytes: number
}

export interface JournalListener {
  /** a reader is waiting; only ever a hint */
  onWake?(): void
  /** the store has everything up to here; only ever a hint */
  onStored?(position: Position): void
  /**
   * neither the journal nor the writer will read this body of an append again; not promised for every body, and never
   * called twice for one
   */
  onReleased?(body: Buffer): void
}

/**
 * Holds accepted data until the store has it. Two implementations share one suite of contract tests: Redis and LMDB.
 *
 * Every call ends in bounded time. A call that fails throws an ApiError: `overloaded` if the journal is full,
 * `unavailable` if it cannot be reached; after both, nothing was written.
 */
export interface Journal {
  /** drawn at random when the journal was created; part of every event id */
  readonly id: number

  /**
   * Changes whenever the journal may have lost its last steps, as when a lagging replica became the master: what was
   * written, frozen or acknowledged last may not have happened.
   */
  readonly era: number

  /** whether it can be used now, as far as this process knows; only ever a hint */
  readonly isUp: boolean

  /**
   * Executes all writes in one atomic step and resolves when they are durable. If the reply is lost, the call is resent
   * and never written twice. One call at a time: GroupCommit ensures that.
   * @throws ApiError `internal` if the journal became unavailable and the outcome is unknown
   */
  write(writes: Write[]): Promise<Outcome[]>

  /** The current states of as many of the first keys as fit into `maxBytes`, at least one. */
  readStates(stateKeys: string[], maxBytes: number): Promise<StateReading>

  /** The mark of the states, which is made if there is none. */
  markStates(): Promise<StatesMark>

  /** `repeated` or `mismatch` if the request is remembered, else null. */
  findRequest(request: IdempotencyKey): Promise<Outcome | null>

  /** The indexes of those of these ids, INSERT_ID_BYTES each, that are known. */
  findInsertIds(insertIds: Buffer): Promise<number[]>

  progress(projectId?: string): Promise<Progress>

  /**
   * Lifts the journal to a position of another one, at most MAX_LIFT_MS ahead of its own clock: what it assigns from now on
   * lies behind it. Hence a reader of several journals that lifts all to the greatest `appended` has seen everything up to
   * that position once the least `stored` has reached it, however idle a journal is and however far their clocks differ.
   * @returns the progress after it; `stored` is just before the first entry that waits, or `appended` if none does
   */
  level(position: Position, projectId?: string): Promise<Progress>

  /**
   * From now on, a write of this process gets only positions after `position`, which another journal assigned; up to
   * MAX_LIFT_MS ahead of this journal's clock. So what one client sends to several journals keeps its order.
   */
  raiseFloor(position: Position): void

  /**
   * The block to store next: the frozen one if there is one, else a new one of up to `maxBytes` (at least one entry),
   * which is frozen before it is returned. Null if nothing waits or another writer holds the lease.
   */
  claim(maxBytes: number): Promise<Block | null>

  /** Ends the frozen block at `last`; allowed only if nothing of it after `last` is stored. */
  shrink(block: Block, last: Position): Promise<void>

  /** The block is stored: advances `stored`, removes the entries, and lets the states expire. */
  acknowledge(block: Block, states: StoredState[]): Promise<void>

  /**
   * Assigns only positions after `position` from now on, as the store has that one. If nothing waits, everything up to it
   * counts as stored, and the states are removed, as the store may have newer ones.
   */
  advancePast(position: Position): Promise<void>

  /** Cheap enough to be called every second. */
  depth(): Promise<Depth>

  /** Counts a deletion of a project's events, visible to all processes. */
  noteDeletion(projectId: string): Promise<void>

  /** Tells the writer, in whichever process it runs, that a reader is waiting. */
  wakeWriter(): void

  /** @returns a function that removes the listener */
  listen(listener: JournalListener): () => void

  /** @throws if the journal is unavailable, or is for another layout, so that it refuses every call */
  ping(): Promise<void>

  close(): Promise<void>
}

/**
 * How far ahead of its own clock a journal assigns positions at most because another journal did: the positions of one
 * wrong clock would else be those of all.
 */
export const MAX_LIFT_MS = 60_000

/**
 * How long a state is kept after it is stored. Longer than any read of the store may take: a change whose read began
 * before another commit must still find that commit's state here, or it would overwrite it.
 */
export const STATE_MEMORY_MS = 10 * 60 * 1000

/**
 * A commit of a state that the journal does not have is a conflict if its reading is older than this: the state of another
 * commit may have come and expired since, as when a process was suspended in between. The rest of STATE_MEMORY_MS allows
 * for a clock that is set back meanwhile. Longer than a read of the store and a write take together.
 */
export const READING_MEMORY_MS = 2 * 60 * 1000
