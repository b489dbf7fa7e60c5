import { randomInt } from 'node:crypto'
import type { Database, RootDatabase } from 'lmdb'
import { ApiError } from '../../contract/errors.js'
import { laterOf, nextPosition, type Position, START } from '../../model/position.js'
import {
  type Block,
  type Depth,
  type Entry,
  type IdempotencyKey,
  type Journal,
  type JournalListener,
  MAX_LIFT_MS,
  type Outcome,
  type Progress,
  type StateReading,
  type StoredState,
  type Write,
} from '../journal.js'
import { FIRST_LAYOUT, LayoutError, type LayoutGuard } from '../layout.js'
import { decodeEntry, encodeEntry, guardOf, type Meta, metaOf, positionKey } from './encoding.js'
import { execute, type Remembered } from './execute.js'
import { LmdbInsertIds } from './insert-ids.js'
import { NewEntries } from './new-entries.js'
import { LmdbRequests } from './requests.js'
import { LmdbStates } from './states.js'
import { type LmdbTables, openTables } from './tables.js'
import { transact } from './transact.js'

export interface LmdbJournalOptions {
  /** of a directory that belongs to this process alone */
  path: string
  /** above this many bytes of entries and states, writes are refused */
  maxBytes: number
  /** idempotency keys that a project may have remembered; 0, the default: any number */
  maxRequestKeys?: number
  /** the version of the store's layout by whose lanes this process writes; default FIRST_LAYOUT */
  layout?: number
  /** epoch milliseconds */
  now?: () => number
}

/** Expired requests, and states, that an acknowledgement removes at most; twice as many as it adds if that is more. */
const MIN_SWEEP = 1000
/**
 * How far ahead of a lift the next ones are recorded, so that one transaction a second does for all: after a restart, this
 * journal may continue that far ahead of its clock.
 */
const LIFT_STEP_MS = 1_000

/** Opens the embedded journal, creating it if there is none. */
export async function openLmdbJournal(options: LmdbJournalOptions): Promise<Journal> {
  const tables = openTables(options.path)
  try {
    const journal = new LmdbJournal(tables, options)
    await journal.initialise()
    return journal
  } catch (error) {
    await tables.root.close()
    throw error
  }
}

/**
 * The journal of a single process, in LMDB. Entries, states and remembered requests are on disk. Their size, the last
 * position and the pending events are derived from them at the start and kept in memory, so that the two never disagree
 * after a crash.
 */
class LmdbJournal implements Journal {
  id = 0
  readonly era = 0
  isUp = true
  readonly #root: RootDatabase
  readonly #entries: Database<Buffer, Buffer>
  readonly #remembered: Remembered
  readonly #meta: Database<Meta, string>
  readonly #maxBytes: number
  readonly #layout: number
  /** as it was at the start: nobody changes it while this process has the journal */
  #guard: LayoutGuard = { version: FIRST_LAYOUT, closedFor: null }
  readonly #now: () => number
  readonly #listeners = new Set<JournalListener>()
  readonly #pending = new Map<string, number>()
  /** in memory only, like the page index that depends on it */
  readonly #deletions = new Map<string, number>()
  #stored = START
  #appended = START
  /** ahead of #appended while a write is in flight, and after one that failed */
  #allocated = START
  #advancedPast = START
  /** of #advancedPast, what is on disk */
  #recordedLift = START
  /** the greatest position of other journals; the clock limits what of it applies */
  #foreignFloor = START
  #frozen: { first: Position; last: Position } | null = null
  #entryCount = 0
  #oldest = { position: START, receivedAt: 0 }
  #bytes = 0
  #stateBytes = 0

  constructor(tables: LmdbTables, options: LmdbJournalOptions) {
    const { maxBytes, maxRequestKeys = 0, layout = FIRST_LAYOUT, now = Date.now } = options
    this.#root = tables.root
    this.#entries = tables.entries
    this.#meta = tables.meta
    this.#remembered = {
      requests: new LmdbRequests(tables, maxRequestKeys),
      insertIds: new LmdbInsertIds(tables),
      states: new LmdbStates(tables),
    }
    this.#maxBytes = maxBytes
    this.#layout = layout
    this.#now = now
  }

  async initialise(): Promise<void> {
    let meta = this.#meta.get('meta')
    if (!meta) {
      meta = { id: randomInt(2 ** 32), stored: String(nextPosition(START, this.#now())), frozen: null }
      if (this.#layout !== FIRST_LAYOUT) meta.layout = this.#layout
      await this.#meta.put('meta', meta)
    }
    this.id = meta.id
    this.#guard = guardOf(meta)
    this.#stored = BigInt(meta.stored)
    this.#frozen = meta.frozen && { first: BigInt(meta.frozen[0]), last: BigInt(meta.frozen[1]) }
    this.#appended = this.#stored
    for (const { key, value } of this.#entries.getRange()) {
      this.#appended = key.readBigUInt64BE()
      this.#count(decodeEntry(this.#appended, value), 1)
    }
    this.#stateBytes = this.#remembered.states.size()
    this.#advancedPast = BigInt(meta.outranked ?? START)
    this.#recordedLift = this.#advancedPast
    this.#allocated = laterOf(this.#appended, this.#advancedPast)
  }

  async write(writes: Write[]): Promise<Outcome[]> {
    this.#assertLayout(true)
    if (this.#isFull()) await this.#removeExpired()
    if (this.#isFull()) {
      throw new ApiError('overloaded', 'The journal is full until the store has caught up. Try again later.')
    }
    const now = this.#now()
    const floor = limitedBy(this.#foreignFloor, now)
    const entries = new NewEntries(now, () => {
      this.#allocated = nextPosition(laterOf(this.#allocated, floor), now)
      return this.#allocated
    })
    const outcomes: Outcome[] = []
    let added: Entry[] = []
    let grown = 0
    await transact(this.#root, () => {
      for (const write of writes) {
        const { outcome, grown: more } = execute(write, this.#remembered, entries, { now, last: () => this.#allocated })
        outcomes.push(outcome)
        grown += more
      }
      added = entries.all
      for (const entry of added) this.#entries.put(positionKey(entry.position), encodeEntry(entry))
    })
    this.#stateBytes += grown
    for (const entry of added) {
      this.#count(entry, 1)
      this.#appended = laterOf(this.#appended, entry.position)
    }
    for (const write of writes) {
      if (write.type !== 'append') continue
      for (const { onReleased } of this.#listeners) onReleased?.(write.body)
    }
    return outcomes
  }

  async readStates(stateKeys: string[], maxBytes: number): Promise<StateReading> {
    return { readAt: this.#now(), states: this.#remembered.states.read(stateKeys, maxBytes) }
  }

  async findRequest(request: IdempotencyKey): Promise<Outcome | null> {
    return this.#remembered.requests.find(request, this.#now())
  }

  async findInsertIds(insertIds: Buffer): Promise<number[]> {
    return this.#remembered.insertIds.find(insertIds, this.#now())
  }

  async progress(projectId = ''): Promise<Progress> {
    this.#assertLayout()
    return {
      appended: this.#appended,
      stored: this.#stored,
      pending: this.#pending.get(projectId) ?? 0,
      deletions: this.#deletions.get(projectId) ?? 0,
    }
  }

  async level(position: Position, projectId = ''): Promise<Progress> {
    this.#assertLayout()
    let appended = START
    let isEmpty = false
    let stored = START
    // What is being written was assigned before, and is among the entries here.
    await transact(this.#root, () => {
      const lifted = limitedBy(position, this.#now())
      if (lifted > this.#allocated && lifted > this.#recordedLift) {
        this.#advancedPast = lifted + (BigInt(LIFT_STEP_MS) << 16n)
        // Not from memory, which does not have a block yet that is being frozen.
        const meta = this.#meta.get('meta')
        if (meta) this.#meta.put('meta', { ...meta, outranked: String(this.#advancedPast) })
      }
      this.#allocated = laterOf(this.#allocated, lifted)
      appended = this.#allocated
      const first = this.#first()
      isEmpty = first === null
      stored = first === null ? appended : first - 1n
    })
    this.#recordedLift = this.#advancedPast
    this.#appended = laterOf(this.#appended, appended)
    if (isEmpty) this.#stored = laterOf(this.#stored, appended)
    return { ...(await this.progress(projectId)), appended, stored }
  }

  /** The position of the oldest entry. */
  #first(): Position | null {
    const [key] = this.#entries.getKeys({ limit: 1 })
    return key ? key.readBigUInt64BE() : null
  }

  raiseFloor(position: Position): void {
    this.#foreignFloor = laterOf(this.#foreignFloor, position)
  }

  async claim(maxBytes: number): Promise<Block | null> {
    this.#assertLayout()
    if (this.#frozen) {
      const { first, last } = this.#frozen
      return { isRepeated: true, first, last, entries: this.#read(first, last) }
    }
    const entries = this.#read(this.#stored + 1n, this.#appended, maxBytes)
    const first = entries[0]?.position
    const last = entries.at(-1)?.position
    if (first === undefined || last === undefined) return null
    await this.#freeze({ first, last })
    return { isRepeated: false, first, last, entries }
  }

  async shrink({ first }: Block, last: Position): Promise<void> {
    await this.#freeze({ first, last })
  }

  async #freeze(frozen: { first: Position; last: Position }): Promise<void> {
    await transact(this.#root, () => this.#meta.put('meta', this.#metaWith(this.#stored, frozen)))
    this.#frozen = frozen
  }

  async acknowledge(block: Block, states: StoredState[]): Promise<void> {
    const now = this.#now()
    let grown = 0
    let stored = block.last
    await transact(this.#root, () => {
      for (const { position } of block.entries) this.#entries.remove(positionKey(position))
      this.#remembered.states.letExpire(states, now)
      grown = this.#sweep(now, Math.max(MIN_SWEEP, 2 * states.length))
      // Where nothing is left, everything assigned is stored: after a lift that is later than any entry.
      if (this.#first() === null) stored = laterOf(stored, this.#allocated)
      this.#meta.put('meta', this.#metaWith(stored, null))
    })
    this.#stateBytes += grown
    this.#stored = stored
    this.#appended = laterOf(this.#appended, stored)
    this.#frozen = null
    for (const entry of block.entries) this.#count(entry, -1)
    for (const { onStored } of this.#listeners) onStored?.(stored)
  }

  /** Removes requests that are too old to be repeated, and states that have not changed since they were stored. */
  #sweep(now: number, limit: number): number {
    this.#remembered.requests.forget(now, limit)
    this.#remembered.insertIds.forget(now, limit)
    return this.#remembered.states.sweep(now, limit)
  }

  #assertLayout(isWrite = false): void {
    const { version, closedFor } = this.#guard
    if (version !== this.#layout || (isWrite && closedFor !== null)) throw new LayoutError(this.#guard)
  }

  #isFull(): boolean {
    return this.#bytes + this.#stateBytes > this.#maxBytes
  }

  /** For a journal that is full of states: without writes, no block is acknowledged, and nothing else removes them. */
  async #removeExpired(): Promise<void> {
    const now = this.#now()
    if (!this.#remembered.states.hasExpired(now)) return
    let grown = 0
    await transact(this.#root, () => {
      grown = this.#sweep(now, MIN_SWEEP)
    })
    this.#stateBytes += grown
  }

  async advancePast(position: Position): Promise<void> {
    this.#advancedPast = laterOf(this.#allocated, position)
    this.#allocated = this.#advancedPast
    const isEmpty = this.#entryCount === 0
    const stored = isEmpty ? this.#advancedPast : this.#stored
    await transact(this.#root, () => {
      if (isEmpty) this.#remembered.states.clear()
      this.#meta.put('meta', this.#metaWith(stored, isEmpty ? null : this.#frozen))
    })
    this.#recordedLift = this.#advancedPast
    if (!isEmpty) return
    this.#stateBytes = 0
    this.#stored = stored
    this.#appended = stored
  }

  async depth(): Promise<Depth> {
    return {
      entries: this.#entryCount,
      bytes: this.#bytes,
      stateBytes: this.#stateBytes,
      oldestMs: this.#entryCount === 0 ? 0 : Math.max(0, this.#now() - this.#oldestReceivedAt()),
      limitBytes: this.#maxBytes,
    }
  }

  /** Cached, as the entry may be large. */
  #oldestReceivedAt(): number {
    const [key] = this.#entries.getKeys({ limit: 1 })
    const position = key?.readBigUInt64BE() ?? START
    const value = key && position !== this.#oldest.position && this.#entries.get(key)
    if (value) this.#oldest = { position, receivedAt: decodeEntry(position, value).receivedAt }
    return this.#oldest.receivedAt
  }

  async noteDeletion(projectId: string): Promise<void> {
    this.#deletions.set(projectId, (this.#deletions.get(projectId) ?? 0) + 1)
  }

  wakeWriter(): void {
    for (const { onWake } of this.#listeners) onWake?.()
  }

  listen(listener: JournalListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async ping(): Promise<void> {
    this.#assertLayout()
    if (!this.#meta.get('meta')) throw new Error('the journal cannot be read')
  }

  async close(): Promise<void> {
    this.isUp = false
    await this.#root.close()
  }

  #metaWith(stored: Position, frozen: { first: Position; last: Position } | null): Meta {
    return {
      id: this.id,
      stored: String(stored),
      frozen: frozen && [String(frozen.first), String(frozen.last)],
      ...(this.#advancedPast !== START && { outranked: String(this.#advancedPast) }),
      ...metaOf(this.#guard),
    }
  }

  #read(first: Position, last: Position, maxBytes = Number.POSITIVE_INFINITY): Entry[] {
    const entries: Entry[] = []
    let bytes = 0
    const range = this.#entries.getRange({ start: positionKey(first), end: positionKey(last + 1n) })
    for (const { key, value } of range) {
      const entry = decodeEntry(key.readBigUInt64BE(), value)
      entries.push(entry)
      bytes += entry.body.length
      if (bytes >= maxBytes) break
    }
    return entries
  }

  #count({ kind, projectId, count, body }: Entry, sign: 1 | -1): void {
    this.#entryCount += sign
    this.#bytes += sign * body.length
    if (kind !== 'events') return
    const pending = (this.#pending.get(projectId) ?? 0) + sign * count
    if (pending === 0) this.#pending.delete(projectId)
    else this.#pending.set(projectId, pending)
  }
}

/** A position of another journal, or as far as one may lift this one. */
function limitedBy(position: Position, nowMs: number): Position {
  const limit = BigInt(nowMs + MAX_LIFT_MS) << 16n
  return position < limit ? position : limit
}
