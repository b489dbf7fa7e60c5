import type { Database } from 'lmdb'
import { KEY_CLASSES } from '../../contract/key-class.js'
import { oneAtATime } from '../../lib/one-at-a-time.js'
import { maxPosition, nextPosition, type Position, START } from '../../model/position.js'
import type { IdempotencyKey } from '../../model/request-ids.js'
import { type Sender, senderName } from '../../model/sender.js'
import { warnOfShortMemory } from '../insert-id-memory.js'
import {
  type Block,
  bodiesToRelease,
  type Depth,
  type IdMemory,
  type Journal,
  type JournalListener,
  JournalListeners,
  LARGE_PART,
  MAX_LIFT_MS,
  type Outcome,
  type Progress,
  type StateReading,
  type StatesMark,
  type StoredState,
  type Tally,
  type Write,
} from '../journal.js'
import { FIRST_LAYOUT, LayoutError, type LayoutGuard } from '../layout.js'
import { ANY_NUMBER, type PerClass } from '../sender-limits.js'
import { journalFull, pickLargest } from '../shares.js'
import { checkDatabase } from './check.js'
import { assertWritable } from './disk-reserve.js'
import { Draft } from './draft.js'
import { FORMAT, type Meta, positionKey, toGuard, toMeta } from './encoding.js'
import { type EntriesOptions, LmdbEntries } from './entries.js'
import { execute, NewEntries, type Remembered } from './execute.js'
import { LmdbInsertIds } from './insert-ids.js'
import { type Clocks, MemoryClock } from './memory-clock.js'
import { createMeta, putMeta, readMeta } from './meta.js'
import { LmdbRequests } from './requests.js'
import { StateCache } from './state-cache.js'
import { LmdbStates } from './states.js'
import { APPLIED, type LmdbTables, openTables } from './tables.js'
import { addWaiting, countAcknowledged, readTallies } from './tallies.js'
import { transact, transactWithRoom, unwritable } from './transact.js'

export interface LmdbJournalOptions extends Clocks, Pick<EntriesOptions, 'segmentBytes' | 'memoryBytes' | 'log'> {
  /** the directory, which only this process may use */
  path: string
  /** above this many bytes of entries and their states, writes are refused */
  maxBytes: number
  /** how many idempotency keys of a sender are remembered; default: any number */
  maxRequestKeys?: PerClass
  /** how many ids of a sender are remembered; default: any number */
  maxIds?: PerClass
  /** the version of the layout that this process was started for; default FIRST_LAYOUT */
  layout?: number
}

/**
 * A lift is recorded this far ahead, ms, so that one transaction a second is enough. After a restart, the journal may
 * continue this far ahead of its clock.
 */
const LIFT_STEP_MS = 1_000

/**
 * Opens the embedded journal, creating it if there is none.
 * @throws OtherVersionError; Error if entries are missing or cannot be read; DamagedJournalError if its database cannot
 */
export async function openLmdbJournal(options: LmdbJournalOptions): Promise<Journal> {
  const { path, layout, now = Date.now } = options
  await checkDatabase(path, true)
  const tables = openTables(path)
  try {
    const found = readMeta(tables, path)
    const meta = found ?? (await createMeta(path, now(), layout))
    if (!found) await transact(tables.root, () => putMeta(tables, meta))
    const frozen = BigInt(meta.frozen?.[1] ?? START)
    const entries = await LmdbEntries.open(tables, { ...options, stored: BigInt(meta.stored), frozen })
    return new LmdbJournal(tables, entries, meta, options)
  } catch (error) {
    await tables.root.close()
    throw error
  }
}

/**
 * The journal of a single process. Entries are in a log of files; states, remembered requests and ids, and the stored
 * position are in LMDB. A write that changes nothing in LMDB is durable once its record is in the log. Otherwise the
 * record is written first and is conditional: it counts once the following transaction, which notes the record's last
 * position, is committed. The size of the entries, the last position and the pending events are computed from the log
 * at the start and kept in memory, so they always agree with it after a crash.
 */
class LmdbJournal implements Journal {
  readonly id: number
  readonly era = 0
  isUp = true
  readonly ids: IdMemory
  readonly #tables: LmdbTables
  readonly #entries: LmdbEntries
  readonly #remembered: Remembered
  readonly #cache: StateCache
  readonly #meta: Database<Meta, string>
  readonly #path: string
  readonly #maxBytes: number
  readonly #layout: number
  /** read at the start: it cannot change while this process has the journal open */
  readonly #guard: LayoutGuard
  readonly #now: () => number
  readonly #listeners = new JournalListeners()
  /** in memory only, like the page starts that depend on it */
  readonly #deletions = new Map<string, number>()
  #stored: Position
  #appended: Position
  /** ahead of #appended while a write is in flight, and after one that failed */
  #allocated: Position
  /** the first position of the write in flight; null if there is none, or if it has no entry yet */
  #inFlight: Position | null = null
  #advancedPast: Position
  /** the value of #advancedPast that is on disk */
  #recordedLift: Position
  /** the greatest position of other journals; applied up to MAX_LIFT_MS ahead of the clock */
  #foreignFloor = START
  #frozen: { first: Position; last: Position } | null
  /** writes and look-ups of ids run one after another, because each looks up what those before it changed */
  readonly #inTurn = oneAtATime()

  constructor(tables: LmdbTables, entries: LmdbEntries, meta: Meta, options: LmdbJournalOptions) {
    const {
      maxBytes,
      maxRequestKeys = ANY_NUMBER,
      maxIds = ANY_NUMBER,
      layout = FIRST_LAYOUT,
      now = Date.now,
      log,
    } = options
    const clock = MemoryClock.of(tables, options)
    const onShortened = (sender: Sender) => log && warnOfShortMemory(log, sender)
    const insertIds = new LmdbInsertIds(tables, { clock, onShortened, max: maxIds })
    this.#tables = tables
    this.#entries = entries
    this.#meta = tables.meta
    this.#remembered = {
      requests: new LmdbRequests(tables, meta.id, maxRequestKeys, clock),
      insertIds,
      states: new LmdbStates(tables),
      tallies: tables.tallies,
      clock,
    }
    this.ids = {
      find: (sent) => this.#inTurn(() => insertIds.find(sent, now())),
      use: async (projectId) => [...insertIds.use(now(), projectId)],
      forget: async (sender) => {
        await this.#inTurn(() => insertIds.drop(sender, now()))
        await insertIds.removeDropped(sender, (work) => this.#drain(work))
      },
    }
    this.#path = options.path
    this.#maxBytes = maxBytes
    this.#layout = layout
    this.#now = now
    this.id = meta.id
    this.#guard = toGuard(meta)
    this.#stored = BigInt(meta.stored)
    this.#frozen = meta.frozen && { first: BigInt(meta.frozen[0]), last: BigInt(meta.frozen[1]) }
    this.#appended = entries.last
    this.#cache = new StateCache(this.#remembered, tables.meta, maxBytes)
    this.#advancedPast = BigInt(meta.outranked ?? START)
    this.#recordedLift = this.#advancedPast
    this.#allocated = maxPosition(this.#appended, this.#advancedPast)
  }

  write(writes: Write[]): Promise<Outcome[]> {
    return this.#inTurn(() => this.#write(writes))
  }

  async #write(writes: Write[]): Promise<Outcome[]> {
    this.#assertLayout(true)
    if (!this.isUp) throw unwritable(new Error('the outcome of an earlier write is unknown; restart the process'))
    if (this.#entries.held.total > this.#maxBytes) throw journalFull()
    const now = this.#now()
    const floor = limitPosition(this.#foreignFloor, now)
    const advance = () => {
      this.#allocated = nextPosition(maxPosition(this.#allocated, floor), now)
      this.#inFlight ??= this.#allocated
      return this.#allocated
    }
    const entries = new NewEntries(now, advance, { waiting: this.#entries.held, maxBytes: this.#maxBytes })
    const draft = new Draft()
    const outcomes = execute(writes, this.#remembered, entries, { now, last: () => this.#allocated, draft })
    const added = entries.all
    let isKept = false
    try {
      if (!draft.isEmpty) await assertWritable(this.#path, this.#tables)
      if (added.length > 0) await this.#entries.prepare(added, !draft.isEmpty)
      if (!draft.isEmpty) await this.#apply(draft, added.at(-1)?.position)
      isKept = added.length > 0 && this.#entries.add(added)
      this.#appended = maxPosition(this.#appended, this.#entries.last)
    } catch (error) {
      // Expired data may be all that can be freed, and while writes fail nothing else removes it.
      await this.#removeExpired().catch(() => undefined)
      throw error
    } finally {
      this.#inFlight = null
    }
    this.#listeners.release(bodiesToRelease(writes, outcomes, isKept))
    return outcomes
  }

  /** @param last position of the last entry that was prepared for the draft, if there is one */
  async #apply(draft: Draft, last: Position | undefined): Promise<void> {
    const { root, log, states } = this.#tables
    const { onReplaced, done } = this.#cache.replacing()
    try {
      const apply = () => {
        if (last !== undefined) log.put(APPLIED, positionKey(last))
      }
      await draft.commit(root, apply, { table: states, onReplaced })
    } catch (error) {
      if (last !== undefined) await this.#entries.takeBack(last).catch((unsure) => this.#stop(unsure))
      throw error
    }
    done()
  }

  /** Refuses further writes, because one may or may not be on disk. The next start finds out. */
  #stop(error: unknown): never {
    this.isUp = false
    throw error
  }

  async readStates(stateKeys: string[], maxBytes: number): Promise<StateReading> {
    const { mark } = this.#remembered.states.mark
    return { readAt: this.#now(), mark, states: this.#remembered.states.read(stateKeys, maxBytes) }
  }

  async markStates(): Promise<StatesMark> {
    return { readAt: this.#now(), ...this.#remembered.states.mark }
  }

  async findRequest(request: IdempotencyKey): Promise<Outcome | null> {
    return this.#remembered.requests.find(request, this.#now())
  }

  async progress(projectId = ''): Promise<Progress> {
    this.#assertLayout()
    return {
      appended: this.#appended,
      stored: this.#stored,
      isStored: this.#isStored(projectId),
      pending: this.#entries.countPending(projectId),
      deletions: this.#deletions.get(projectId) ?? 0,
    }
  }

  async level(position: Position, projectId = ''): Promise<Progress> {
    this.#assertLayout()
    let appended = START
    await transact(this.#tables.root, () => {
      const lifted = limitPosition(position, this.#now())
      if (lifted > this.#allocated && lifted > this.#recordedLift) {
        this.#advancedPast = lifted + (BigInt(LIFT_STEP_MS) << 16n)
        // Do not use #frozen, which does not have a block that is being frozen.
        const meta = this.#meta.get('meta')
        if (meta) putMeta(this.#tables, { ...meta, outranked: String(this.#advancedPast) })
      }
      this.#allocated = maxPosition(this.#allocated, lifted)
      appended = this.#allocated
    })
    this.#recordedLift = this.#advancedPast
    this.#appended = maxPosition(this.#appended, appended)
    // Read before the wait: a write that is in flight now may finish during it, and its entries are not stored yet.
    const inFlight = this.#inFlight
    const first = (await this.#entries.oldest())?.position ?? inFlight
    // If the first entry was assigned after the lift, everything up to the lift is stored.
    const stored = first === null || first > appended ? appended : first - 1n
    if (this.#isEmpty) this.#stored = maxPosition(this.#stored, appended)
    return { ...(await this.progress(projectId)), appended, stored }
  }

  /** A lift may have passed the write in flight, which may have entries of the project. */
  #isStored(projectId: string): boolean {
    const isWriting = this.#inFlight !== null && this.#inFlight <= this.#appended
    const isHeld = KEY_CLASSES.some((keyClass) => this.#entries.held.of(senderName({ projectId, keyClass })) > 0)
    return !isWriting && !isHeld
  }

  /** Whether nothing waits and nothing is being written. */
  get #isEmpty(): boolean {
    return this.#entries.length === 0 && this.#inFlight === null
  }

  raiseFloor(position: Position): void {
    this.#foreignFloor = maxPosition(this.#foreignFloor, position)
  }

  async claim(maxBytes: number): Promise<Block | null> {
    this.#assertLayout()
    if (this.#frozen) {
      const { first, last } = this.#frozen
      return { isRepeated: true, first, last, entries: await this.#entries.upTo(last) }
    }
    const entries = await this.#entries.first(maxBytes)
    const first = entries[0]?.position
    const last = entries.at(-1)?.position
    if (first === undefined || last === undefined) return null
    await this.#freeze({ first, last })
    return { isRepeated: false, first, last, entries }
  }

  /** No other process has this journal. */
  async yieldLease(): Promise<boolean> {
    return false
  }

  /** A transaction that also succeeds on a full disk, where the journal must still be drained. */
  async #drain(work: () => void): Promise<void> {
    await transactWithRoom(this.#tables.root, work, () => this.#entries.makeRoom())
  }

  async shrink({ first }: Block, last: Position): Promise<void> {
    await this.#freeze({ first, last })
  }

  async #freeze(frozen: { first: Position; last: Position }): Promise<void> {
    await this.#drain(() => putMeta(this.#tables, this.#metaWith(this.#stored, frozen)))
    this.#frozen = frozen
  }

  async acknowledge(block: Block, states: StoredState[]): Promise<void> {
    const now = this.#now()
    let done: (() => void) | undefined
    let stored = block.last
    await this.#drain(() => {
      countAcknowledged(this.#tables.tallies, block.entries)
      done = this.#cache.settle(states, now)
      // If no entry is left, everything assigned counts as stored. After a lift, that is beyond the last entry.
      const isLast = this.#entries.length === block.entries.length && this.#inFlight === null
      if (isLast) stored = maxPosition(stored, this.#allocated)
      putMeta(this.#tables, this.#metaWith(stored, null))
    })
    done?.()
    this.#stored = stored
    this.#appended = maxPosition(this.#appended, stored)
    this.#frozen = null
    this.#listeners.release(await this.#entries.remove(block))
    this.#listeners.noteStored(stored)
  }

  #assertLayout(isWrite = false): void {
    const { version, closedFor } = this.#guard
    if (version !== this.#layout || (isWrite && closedFor !== null)) throw new LayoutError(this.#guard)
  }

  /** Removes expired data while writes fail, when no acknowledgement does it. */
  async #removeExpired(): Promise<void> {
    // After a failed transaction, LMDB may never finish another one, so none is begun without need.
    if (!this.#remembered.states.hasExpired(this.#now())) return
    let done: (() => void) | undefined
    await transact(this.#tables.root, () => {
      done = this.#cache.settle([], this.#now())
    })
    done?.()
  }

  /** Not during a write, whose state would be removed while its row waits. */
  advancePast(position: Position): Promise<void> {
    return this.#inTurn(() => this.#advancePast(position))
  }

  async #advancePast(position: Position): Promise<void> {
    this.#advancedPast = maxPosition(this.#allocated, position)
    this.#allocated = this.#advancedPast
    const isEmpty = this.#isEmpty
    const stored = isEmpty ? this.#advancedPast : this.#stored
    const work = () =>
      transact(this.#tables.root, () => {
        if (isEmpty) this.#remembered.states.clear()
        putMeta(this.#tables, this.#metaWith(stored, isEmpty ? null : this.#frozen))
      })
    await (isEmpty ? this.#remembered.states.unmarked(work, () => this.#allocated) : work())
    this.#recordedLift = this.#advancedPast
    if (!isEmpty) return
    this.#cache.clear()
    // Another journal may have lifted this one meanwhile.
    this.#stored = maxPosition(this.#stored, stored)
    this.#appended = maxPosition(this.#appended, stored)
  }

  async depth(): Promise<Depth> {
    const { length: entries, bytes, stateBytes, held } = this.#entries
    const oldest = await this.#entries.oldest()
    const shares = Array.from(held, ([holder, bytes]) => ({ holder, bytes }))
    return {
      entries,
      bytes,
      stateBytes,
      cachedBytes: this.#cache.bytes,
      oldestMs: oldest ? Math.max(0, this.#now() - oldest.receivedAt) : 0,
      limitBytes: this.#maxBytes,
      large: pickLargest(shares.filter((share) => share.bytes > this.#maxBytes * LARGE_PART)),
    }
  }

  async tally(): Promise<Tally> {
    // Do not use #stored, which is advanced only after the transaction of an acknowledgement.
    const stored = BigInt(this.#meta.get('meta')?.stored ?? this.#stored)
    const projects = readTallies(this.#tables.tallies)
    for (const [project, count] of this.#entries.pending) addWaiting(projects, project, count)
    return { journalId: this.id, stored, projects }
  }

  async noteDeletion(projectId: string): Promise<void> {
    this.#deletions.set(projectId, (this.#deletions.get(projectId) ?? 0) + 1)
  }

  wakeWriter(): void {
    this.#listeners.wake()
  }

  listen(listener: JournalListener): () => void {
    return this.#listeners.add(listener)
  }

  async ping(): Promise<void> {
    this.#assertLayout()
    if (!this.isUp || !this.#meta.get('meta')) throw new Error('the journal cannot be read')
    await assertWritable(this.#path, this.#tables, this.#entries.growth)
  }

  async close(): Promise<void> {
    this.isUp = false
    await this.#entries.close()
    await this.#tables.root.close()
  }

  #metaWith(stored: Position, frozen: { first: Position; last: Position } | null): Meta {
    return {
      format: FORMAT,
      id: this.id,
      stored: String(stored),
      frozen: frozen && [String(frozen.first), String(frozen.last)],
      ...(this.#advancedPast !== START && { outranked: String(this.#advancedPast) }),
      ...toMeta(this.#guard),
    }
  }
}

/** A position of another journal, limited to MAX_LIFT_MS ahead of this one's clock. @param nowMs epoch ms */
export function limitPosition(position: Position, nowMs: number): Position {
  const limit = BigInt(nowMs + MAX_LIFT_MS) << 16n
  return position < limit ? position : limit
}
