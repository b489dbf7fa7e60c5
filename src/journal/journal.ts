import type { Position } from '../model/position.js'
import type { StateKind } from '../model/state-key.js'

/** What an entry holds, and so which table it goes to. */
export type EntryKind = 'events' | StateKind

/** A request that may come again: the same key means the same request, the fingerprint tells whether its body is the same. */
export interface IdempotencyKey {
  projectId: string
  /** SHA-256 of project and `Idempotency-Key`, hexadecimal */
  key: string
  /** SHA-256 of the body, hexadecimal */
  fingerprint: string
}

/** Events of one project, as one entry. */
export interface Append {
  type: 'append'
  projectId: string
  /** how many events `body` holds, at least 1 */
  count: number
  /** JSON `{"events":[…]}`, verbatim from the client */
  body: Buffer
  idempotencyKey?: IdempotencyKey
}

/** A new value of one profile or session, and the table row that says the same. */
export interface Commit {
  type: 'commit'
  kind: StateKind
  /** a digest of project and name, hexadecimal */
  stateKey: string
  /** the version that the new value was computed from; START where there was none */
  expected: Position
  /** `StateReading.readAt` of that version's reading, which came before the store was asked where it was */
  readAt: number
  /** opaque to the journal; an empty text is a tombstone */
  state: string
  /** a JSON object without its version, which the journal's position becomes */
  row: string
  idempotencyKey?: IdempotencyKey
}

export type Write = Append | Commit

export type Outcome =
  | { status: 'done'; position: Position }
  /** the request key was known: nothing was written, the position is the first one's */
  | { status: 'repeated'; position: Position }
  /** the request key was known with another fingerprint: nothing was written */
  | { status: 'mismatch' }
  /** the request key is a new one, and its project has as many as it may have: nothing was written */
  | { status: 'limited' }
  /** the state has another version than expected, or may have had one: nothing was written */
  | { status: 'conflict' }

export interface State {
  version: Position
  /** empty: deleted */
  state: string
}

export interface StateReading {
  /** by the journal's clock, epoch ms */
  readAt: number
  /** in the order of the keys; null where the journal has none (the store may) */
  states: (State | null)[]
}

export interface Entry {
  position: Position
  kind: EntryKind
  /** of the events; empty for the other kinds, whose rows name their project */
  projectId: string
  /** events or rows */
  count: number
  /** when it was accepted by the journal's clock, epoch ms; its position is later where that clock was once fast */
  receivedAt: number
  /** events: JSON `{"events":[…]}`; profiles and sessions: JSON objects joined by commas */
  body: Buffer
}

/** A run of entries whose limits are written down, so that whoever repeats it repeats the same bytes. */
export interface Block {
  /** it was frozen before this claim, so its INSERT may have been tried */
  isRepeated: boolean
  first: Position
  last: Position
  entries: Entry[]
}

/** A version of a state that the store now has, so that the journal may forget it. */
export interface StoredState {
  stateKey: string
  version: Position
}

export interface Progress {
  /** the last position given out */
  appended: Position
  /** everything up to here is in the store */
  stored: Position
  /** events of the asked-for project after `stored` */
  pending: number
  /** how often events of the asked-for project were deleted */
  deletions: number
}

/** What waits for the store. */
export interface Depth {
  entries: number
  /** of the entries' bodies */
  bytes: number
  /** of the states, those included that the store has and that are still kept */
  stateBytes: number
  /** how long the oldest entry has been waiting, ms; 0 where none is */
  oldestMs: number
  /** above this many bytes of both, writes are refused; it falls and rises with what else Redis holds, also below 0 */
  limitBytes: number
}

export interface JournalListener {
  /** a reader waits; only ever a hint */
  onWake?(): void
  /** the store has everything up to here; only ever a hint */
  onStored?(position: Position): void
  /** the journal reads the body of an append no more, nor does a writer that it has given it to; not told of every one */
  onReleased?(body: Buffer): void
}

/**
 * Where accepted data is until the store has it. Two implementations with the same contract tests: Redis and LMDB.
 *
 * Every call ends in bounded time. A call that cannot be carried out throws ContractError: `overloaded` when the
 * journal is full, `unavailable` when it cannot be reached; after both, nothing was written.
 */
export interface Journal {
  /** drawn at random when the journal was made; part of every event id */
  readonly id: number

  /**
   * Another number than before: in between the journal may have gone back, as where a replica that had not heard of
   * everything became the master. What was settled, frozen or written last may not have happened.
   */
  readonly era: number

  /**
   * Carries out all writes in one atomic step and resolves when they are durable. A lost answer is asked for again,
   * never written twice. One call at a time: GroupCommit sees to that.
   * @throws ContractError `internal` where the journal went away and did not say, in the time allowed, whether it wrote
   */
  write(writes: Write[]): Promise<Outcome[]>

  /** The current states of as many of the first keys as fit into `maxBytes`, of one at least. */
  readStates(stateKeys: string[], maxBytes: number): Promise<StateReading>

  /** `repeated` or `mismatch` where the request is remembered, else null. */
  findRequest(request: IdempotencyKey): Promise<Outcome | null>

  progress(projectId?: string): Promise<Progress>

  /**
   * The block to store next: the frozen one where there is one, else a new one of up to `maxBytes` (at least one
   * entry), frozen before it is returned. Null when there is nothing to do or another writer is at it.
   */
  claim(maxBytes: number): Promise<Block | null>

  /** Ends the frozen block earlier; allowed only where the store holds nothing of it after `last`. */
  shrink(block: Block, last: Position): Promise<void>

  /** The store has the block: moves `stored` on, forgets the entries, and lets go of the states in time. */
  acknowledge(block: Block, states: StoredState[]): Promise<void>

  /**
   * Goes on behind `position`, which another journal has reached in the same store; and where nothing waits here, takes
   * everything up to it as stored and forgets the states, which the store may know better.
   */
  advancePast(position: Position): Promise<void>

  /** Cheap enough to be asked every second. */
  depth(): Promise<Depth>

  /** Counts that events of a project were deleted, for all processes to see. */
  noteDeletion(projectId: string): Promise<void>

  /** Tells the writer, wherever it runs, that a reader waits. */
  wakeWriter(): void

  /** @returns how to stop listening */
  listen(listener: JournalListener): () => void

  /** @throws when the journal does not answer */
  ping(): Promise<void>

  close(): Promise<void>
}

/**
 * How long a state stays after the store has it. Longer than any read of the store may take: a read that began before
 * another's commit must find that commit's state still here, else it would overwrite it.
 */
export const STATE_MEMORY_MS = 10 * 60 * 1000

/**
 * A commit of a state that the journal does not have is a conflict where its reading is older than this: another's commit
 * may have come and been forgotten since, as where a process was suspended between the two. The rest of STATE_MEMORY_MS is
 * for a clock that is set back meanwhile. Longer than a read of the store and a write take together.
 */
export const READING_MEMORY_MS = 2 * 60 * 1000
