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
 * Each step is durable before the next one begins. A block that exceeds ClickHouse's memory is also shrunk, unless a
 * part of it is stored or may still be. After a crash, or a takeover by another writer, the next claim finds:
 *
 * - waiting: nothing was sent to the store. The next block may have other limits.
 * - frozen or stored: the same block again, with `isRepeated`. Its INSERT sends the same bytes with the same token, and
 *   ClickHouse stores nothing twice.
 * - shrunk or rewritten: the shorter block, frozen as such. Rewritten bytes are not kept: the original is refused again
 *   and rewritten to the same bytes.
 * - dead letter: the block of that one entry; its token keeps the dead letter from being stored twice.
 * - acknowledged: the next block.
 *
 * A Redis that lost its last writes (after a power failure, or because a replica lagged) may offer a block that is
 * stored already, or other entries at its positions. `era` changes then, and the writer asks the store what it has
 * before it inserts anything.
 */

import { randomInt } from 'node:crypto'
import type { KeyClass } from '../contract/key-class.js'
import type { SentIds } from '../model/insert-id.js'
import type { Position } from '../model/position.js'
import type { EntryIds, IdempotencyKey, KeyIds, RequestIds } from '../model/request-ids.js'
import type { Sender } from '../model/sender.js'
import type { StateKind } from '../model/state-key.js'
import type { IdUse } from './insert-id-memory.js'

/** The contents of an entry, which determine its table; `rejected` messages become dead letters. */
export type EntryKind = 'events' | 'rejected' | StateKind

/** Events of one project, or rejected messages, as one entry. */
export interface Append {
  type: 'append'
  /** default: `events` */
  kind?: 'events' | 'rejected'
  projectId: string
  /** class of the API key that sent it; determines the share of the journal and the ids that it counts towards */
  keyClass: KeyClass
  /** how many events `body` holds, at least 1 */
  count: number
  /** JSON `{"events":[…]}`, verbatim from the client */
  body: Buffer
  /**
   * If the key of the whole entry is known, nothing is written. An event whose own id, or the key of whose request, is
   * known from the same sender is skipped, so that of all events with one id only the first is stored.
   */
  ids: EntryIds
}

/**
 * A state that a commit of another one depends on, such as the alias that a name must not have become in the meantime.
 * Both are in the same journal.
 */
export interface Fence {
  stateKey: string
  /** START if there was none */
  version: Position
  /** like `readAt` of a commit */
  readAt: number
}

/** A new value of one profile or session, and its table row. */
export interface Commit {
  type: 'commit'
  kind: StateKind
  projectId: string
  /** class of the API key that sent it; determines the share of the journal and the ids that it counts towards */
  keyClass: KeyClass
  /** see `toStateKey` */
  stateKey: string
  /** the version that the new value was computed from; START if there was none */
  expected: Position
  /** `readAt` of the StateReading that had that version, or that had none, so that the store was read */
  readAt: number
  /** opaque to the journal; the empty string is a tombstone */
  state: string
  /** a JSON object without its version, which will be the position of the entry */
  row: string
  /** of the changes in it that have an id, all different: if one of them is known, nothing is written */
  ids: RequestIds
  /** nothing is written if this state has changed */
  fence?: Fence | undefined
}

/**
 * Remembers an idempotency key without an entry, for a request whose data goes to another journal. Its outcome has the
 * last position that was assigned. From then on, a request with another fingerprint is a `mismatch`. A request with the
 * same fingerprint is still executed, because the process may have died before it wrote to the other journal.
 */
interface Reserve extends Sender {
  type: 'reserve'
  ids: KeyIds
}

export type Write = Append | Commit | Reserve

export type Outcome =
  /**
   * `known`: indexes of the events that were skipped because their ids or keys are known; absent if none was. If the
   * events have keys, `refused` gives the reason for each skipped one.
   */
  | { status: 'done'; position: Position; known?: number[]; refused?: Refused[] }
  /** the ids at these indexes are known (for an append, the ids or keys of all events): nothing was written */
  | { status: 'known'; known: number[]; refused?: Refused[] }
  | Refused
  /** the state has, or may have had, a version other than the expected one: nothing was written */
  | { status: 'conflict' }
  /** the state of the fence has, or may have had, another version: nothing was written */
  | { status: 'fenced' }
  /** there is no room: nothing was written */
  | { status: 'full'; fullness: Fullness }

/** Why there is no room for a write: `all` if everything is taken, `own` if only its sender has too much of it. */
export type Fullness = 'all' | 'own'

/** Why a request with an idempotency key is not executed: nothing was written. */
export type Refused =
  /**
   * The key is known; position and index identify the first request's event. `index` is present if it is not 0.
   * `journalId` is present with an index, or if another journal assigned the position, for example before a layout
   * change.
   */
  | { status: 'repeated'; position: Position; index?: number; journalId?: number }
  /** The key is known with another fingerprint. */
  | { status: 'mismatch' }
  /** The key is new, and its sender has reached the maximum. */
  | { status: 'limited' }

export interface State {
  version: Position
  /** empty if deleted; null if the store has this version and the journal has kept only its number */
  state: string | null
}

export interface StateReading {
  /** by the journal's clock, epoch ms */
  readAt: number
  /** see StatesMark; null if there is none */
  mark: string | null
  /** in the order of the keys; null if the journal has no such state (the store may have it) */
  states: (State | null)[]
}

/**
 * A random string that is kept with the states. It disappears whenever a state is removed before it expires, whether by
 * this service or because Redis lost its keys. So if two readings find the same mark, every state that was written
 * between them is still in the journal, or has been in the store for STATE_MEMORY_MS.
 */
export interface StatesMark {
  /** by the journal's clock, epoch ms */
  readAt: number
  /** null while states are being removed */
  mark: string | null
  /**
   * the last entry when the mark was created: states written up to it may have been removed earlier, later ones were
   * not
   */
  madeAt: Position
}

export interface Entry {
  position: Position
  kind: EntryKind
  /** project of the events; empty for the other kinds, whose rows name their project */
  projectId: string
  /** number of events, without skipped ones, or of rows */
  count: number
  /** time of acceptance by the journal's clock, epoch ms; the position is later if that clock was set back */
  receivedAt: number
  /** events: JSON `{"events":[…]}`; rejected: a RejectedBody; the others: JSON objects joined by commas */
  body: Buffer
  /** ascending indexes of events in `body` that are stored already; absent if there are none */
  skip?: number[]
}

/** How much of the journal a sender's unstored data takes. */
export interface Share {
  /** see `senderName` */
  holder: string
  bytes: number
}

/** An entry that waits for the store. */
export interface WaitingEntry extends Entry {
  /** how much of the journal it takes, by sender: one for events, or those of its rows */
  shares: readonly Share[]
}

/** A run of entries with fixed limits, so that a retry sends the same bytes. */
export interface Block {
  /** it was frozen before this claim, so its INSERT may have been attempted */
  isRepeated: boolean
  first: Position
  last: Position
  entries: WaitingEntry[]
}

/** A version of a state that is in the store, so it may expire in the journal. */
export interface StoredState {
  stateKey: string
  version: Position
}

export interface Progress {
  /** the last position that was assigned, or to which this journal was lifted */
  appended: Position
  /** everything up to here is in the store */
  stored: Position
  /** everything of the given project up to `appended` is in the store, its states included */
  isStored: boolean
  /** events of the given project after `stored` */
  pending: number
  /** number of deletions of events of the given project */
  deletions: number
}

/** The size of the entries that wait for the store, and of their states. */
export interface Depth {
  entries: number
  /** size of the entries' bodies */
  bytes: number
  /** size of the states that their rows set */
  stateBytes: number
  /** size of the states that are stored and have not expired, which are kept as a cache */
  cachedBytes: number
  /** how long the oldest entry has been waiting, ms; 0 if there is none */
  oldestMs: number
  /** writes are refused if `bytes` + `stateBytes` exceed this; depends on Redis' other data and may be negative */
  limitBytes: number
  /** the senders that hold more than LARGE_PART of the limit */
  large: Share[]
}

/** A sender that holds more than this part of the limit is named in `Depth.large`. */
export const LARGE_PART = 1 / 16

/** The cached states may take this part of the limit in addition to it. */
export const CACHE_PART = 1 / 8

/** A journal's counts of a project's events since the journal was created. */
export interface ProjectTally {
  /** events that left the journal: the store has them, as events or dead letters */
  acknowledged: number
  /** events that were not accepted again, because their keys or ids were known */
  repeated: number
  /** events that wait for the store */
  waiting: number
}

/** A journal's counts, all of the same moment. */
export interface Tally {
  journalId: number
  /** the last position of the acknowledged events */
  stored: Position
  /** by project, without projects that have no counts */
  projects: Map<string, ProjectTally>
}

export interface JournalListener {
  /** a reader is waiting; only ever a hint */
  onWake?(): void
  /** the store has everything up to here; only ever a hint */
  onStored?(position: Position): void
  /**
   * neither the journal nor the writer will read this body of an append again; never called twice for a body, and not
   * guaranteed to be called for every body
   */
  onReleased?(body: Buffer): void
}

/** The remembered ids of events and changes, separately for each sender. */
export interface IdMemory {
  /** The indexes of the known ids. */
  find(ids: SentIds): Promise<number[]>

  /** The use of each sender that has ids. @param projectId only senders of this project */
  use(projectId?: string): Promise<IdUse[]>

  /**
   * Forgets all ids of a sender, and resolves once their memory is freed. Works while the journal is full. Ids of
   * writes that run at the same time may be remembered.
   */
  forget(sender: Sender): Promise<void>
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
   * Changes whenever the journal may have lost its last writes, for example because a lagging replica became the
   * master. The last append, claim or acknowledgement may then be undone.
   */
  readonly era: number

  /** whether it can be used now, as far as this process knows; only ever a hint */
  readonly isUp: boolean

  /** the remembered ids of events and changes */
  readonly ids: IdMemory

  /**
   * Executes all writes in one atomic step and resolves when they are durable. If the reply is lost, the call is resent
   * and never written twice. One call at a time, which GroupCommit ensures. A write whose sender has used up its share
   * of the journal is `full` and does not affect the other writes of the call.
   * @throws ApiError `internal` if the journal became unavailable and the outcome is unknown
   */
  write(writes: Write[]): Promise<Outcome[]>

  /** The current states of the first keys: those that fit into `maxBytes`, but at least one. */
  readStates(stateKeys: string[], maxBytes: number): Promise<StateReading>

  /** Returns the mark of the states; makes one if there is none. */
  markStates(): Promise<StatesMark>

  /** Returns `repeated` or `mismatch` if the request is remembered, otherwise null. */
  findRequest(request: IdempotencyKey): Promise<Outcome | null>

  progress(projectId?: string): Promise<Progress>

  /**
   * Lifts the journal to a position of another one, at most MAX_LIFT_MS ahead of its own clock: from now on it assigns
   * only greater positions. A reader of several journals lifts all of them to the greatest `appended`. Once the
   * smallest `stored` has reached it, the reader sees everything up to there, even if a journal is idle or clocks
   * differ.
   * @returns the progress after the lift; `stored` is just before the first waiting entry, or `appended` if none waits
   */
  level(position: Position, projectId?: string): Promise<Progress>

  /**
   * From now on, writes of this process get only positions after `position`, which another journal assigned, up to
   * MAX_LIFT_MS ahead of this journal's clock. This keeps the order of a client whose requests go to several journals.
   */
  raiseFloor(position: Position): void

  /**
   * Returns the block to store next: the frozen one if there is one, otherwise a new one of up to `maxBytes` (at least
   * one entry), which is frozen before it is returned. Null if nothing waits or another writer holds the lease.
   * @param isWeak whether any other writer comes first, because this one may be unable to store the block
   */
  claim(maxBytes: number, isWeak?: boolean): Promise<Block | null>

  /**
   * Call it when this process failed to store the block that it claimed, and another one may succeed. If another writer
   * is waiting, this one lets it claim the block, and should pause before its next claim for longer than writers do
   * between theirs.
   * @returns whether another writer may have the block from now on
   */
  yieldLease(): Promise<boolean>

  /** Ends the frozen block at `last`; allowed only if nothing after `last` is stored. */
  shrink(block: Block, last: Position): Promise<void>

  /**
   * Call it when the block is stored: advances `stored`, removes the entries, and lets the states expire. While the
   * cached states take more than CACHE_PART of the limit, the oldest of them lose their text and keep their version.
   * @param block as it was claimed, or with only its first entries if it was shrunk to them
   */
  acknowledge(block: Block, states: StoredState[]): Promise<void>

  /**
   * Assigns only positions after `position` from now on, because the store has that one. If no entry waits, everything
   * up to it counts as stored, and the states are removed, because the store may have newer ones.
   */
  advancePast(position: Position): Promise<void>

  /** Cheap enough to be called every second. */
  depth(): Promise<Depth>

  /** Returns the counts of all projects. They survive a kill whenever the events that they count do. */
  tally(): Promise<Tally>

  /** Counts a deletion of a project's events, visible to all processes. */
  noteDeletion(projectId: string): Promise<void>

  /** Wakes the writer, in whatever process it runs, because a reader is waiting. */
  wakeWriter(): void

  /** @returns a function that removes the listener */
  listen(listener: JournalListener): () => void

  /**
   * @throws if the journal is unavailable, is for another layout, or takes no writes until an operator has made room. A
   *   journal that is full until the store has caught up does not throw.
   */
  ping(): Promise<void>

  close(): Promise<void>
}

/**
 * How far ahead of its own clock another journal's position may lift a journal, ms. Without a limit, one wrong clock
 * would determine the positions of all journals.
 */
export const MAX_LIFT_MS = 60_000

/**
 * How long a state, or at least its version, is kept after it is stored, ms. Longer than any read of the store can
 * take: a change that began to read before another commit must still find that commit's state here, or it would
 * overwrite it.
 */
export const STATE_MEMORY_MS = 10 * 60 * 1000

/**
 * A commit of a state that the journal does not have is a conflict if its reading is older than this, ms: since then,
 * another commit may have written the state and the state may have expired, for example while the process was
 * suspended. Longer than a read of the store and a write take together; the difference from STATE_MEMORY_MS allows for
 * a clock that is set back.
 */
export const READING_MEMORY_MS = 2 * 60 * 1000

/** Draws the number of a new journal; never 0, which means that a journal's number is not known yet. */
export function newJournalId(): number {
  return randomInt(1, 2 ** 32)
}

/** The listeners of a journal. */
export class JournalListeners {
  readonly #all = new Set<JournalListener>()

  /** @returns a function that removes the listener */
  add(listener: JournalListener): () => void {
    this.#all.add(listener)
    return () => this.#all.delete(listener)
  }

  wake(): void {
    for (const { onWake } of this.#all) onWake?.()
  }

  noteStored(position: Position): void {
    for (const { onStored } of this.#all) onStored?.(position)
  }

  /** @param entries whose bodies neither the journal nor the writer will read again */
  release(entries: { body: Buffer }[]): void {
    for (const { onReleased } of this.#all) for (const { body } of entries) onReleased?.(body)
  }
}

/**
 * Selects the writes whose bodies nobody needs after the call. A write that was refused because the journal is full
 * still belongs to the caller, which may send it to another lane.
 * @param isKept whether the appended bodies stay in memory for the writer
 */
export function bodiesToRelease(writes: Write[], outcomes: Outcome[], isKept: boolean): Append[] {
  return writes.flatMap((write, i) => {
    const status = outcomes[i]?.status
    return write.type !== 'append' || status === 'full' || (isKept && status === 'done') ? [] : write
  })
}
