import { randomInt } from 'node:crypto'
import { type Database, open, type RootDatabase } from 'lmdb'
import { ApiError } from '../../contract/errors.js'
import { laterOf, nextPosition, type Position, START } from '../../model/position.js'
import type { StateKind } from '../../model/state-key.js'
import {
  type Append,
  type Block,
  type Commit,
  type Depth,
  type Entry,
  type IdempotencyKey,
  type Journal,
  type JournalListener,
  type Outcome,
  type Progress,
  READING_MEMORY_MS,
  STATE_MEMORY_MS,
  type State,
  type StateReading,
  type StoredState,
  type Write,
} from '../journal.js'
import { decodeEntry, EMPTY, encodeEntry, expiryKey, type Meta, positionKey, withPosition } from './encoding.js'
import { LmdbRequests } from './requests.js'
import { transact } from './transact.js'

export interface LmdbJournalOptions {
  /** of a directory that belongs to this process alone */
  path: string
  /** above this many bytes of entries and states, writes are refused */
  maxBytes: number
  /** idempotency keys that a project may have remembered; 0, the default: any number */
  maxRequestKeys?: number
  /** epoch milliseconds */
  now?: () => number
}

/** Expired requests, and states, that an acknowledgement removes at most; twice as many as it adds if that is more. */
const MIN_SWEEP = 1000
/** The types of an expiry key; only earlier versions wrote those of requests. */
const REQUEST = 'r'
const STATE = 's'

/** Opens the embedded journal, creating it if there is none. */
export async function openLmdbJournal(options: LmdbJournalOptions): Promise<Journal> {
  // overlappingSync off: a commit resolves only when it is on disk, as this journal promises.
  // eventTurnBatching off: lmdb leaves its own promise of a failed commit unhandled, which would end the process.
  const root = open({ path: options.path, overlappingSync: false, eventTurnBatching: false, cache: false, maxDbs: 8 })
  try {
    const journal = new LmdbJournal(root, options)
    await journal.initialise()
    return journal
  } catch (error) {
    await root.close()
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
  readonly #root: RootDatabase
  readonly #entries: Database<Buffer, Buffer>
  readonly #states: Database<Buffer, Buffer>
  readonly #requests: LmdbRequests
  /** requests that an earlier version remembered */
  readonly #oldRequests: Database<Buffer, Buffer>
  readonly #expiries: Database<Buffer, Buffer>
  readonly #meta: Database<Meta, string>
  readonly #maxBytes: number
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
  #frozen: { first: Position; last: Position } | null = null
  #entryCount = 0
  #oldest = { position: START, receivedAt: 0 }
  #bytes = 0
  #stateBytes = 0

  constructor(root: RootDatabase, { maxBytes, maxRequestKeys = 0, now = Date.now }: LmdbJournalOptions) {
    const binary = { encoding: 'binary', keyEncoding: 'binary', cache: false } as const
    this.#root = root
    this.#entries = root.openDB({ name: 'entries', ...binary })
    this.#states = root.openDB({ name: 'states', ...binary })
    this.#oldRequests = root.openDB({ name: 'requests', ...binary })
    const requests = root.openDB<Buffer, Buffer>({ name: 'requests-by-time', ...binary })
    const counts = root.openDB<Buffer, Buffer>({ name: 'request-counts', ...binary })
    this.#requests = new LmdbRequests({ requests, counts, old: this.#oldRequests }, maxRequestKeys)
    this.#expiries = root.openDB({ name: 'expiries', ...binary })
    this.#meta = root.openDB({ name: 'meta', encoding: 'json' })
    this.#maxBytes = maxBytes
    this.#now = now
  }

  async initialise(): Promise<void> {
    let meta = this.#meta.get('meta')
    if (!meta) {
      meta = { id: randomInt(2 ** 32), stored: String(nextPosition(START, this.#now())), frozen: null }
      await this.#meta.put('meta', meta)
    }
    this.id = meta.id
    this.#stored = BigInt(meta.stored)
    this.#frozen = meta.frozen && { first: BigInt(meta.frozen[0]), last: BigInt(meta.frozen[1]) }
    this.#appended = this.#stored
    for (const { key, value } of this.#entries.getRange()) {
      this.#appended = key.readBigUInt64BE()
      this.#count(decodeEntry(this.#appended, value), 1)
    }
    for (const { value } of this.#states.getRange()) this.#stateBytes += value.length
    this.#advancedPast = BigInt(meta.outranked ?? START)
    this.#allocated = laterOf(this.#appended, this.#advancedPast)
  }

  async write(writes: Write[]): Promise<Outcome[]> {
    if (this.#isFull()) await this.#removeExpired()
    if (this.#isFull()) {
      throw new ApiError('overloaded', 'The journal is full until the store has caught up. Try again later.')
    }
    const now = this.#now()
    const added: Entry[] = []
    const outcomes: Outcome[] = []
    const changed = new ChangedBytes()
    const rows = new Map<StateKind, { position: Position; rows: string[] }>()
    const advance = (): Position => {
      this.#allocated = nextPosition(this.#allocated, now)
      return this.#allocated
    }
    await transact(this.#root, () => {
      for (const write of writes) {
        const outcome =
          this.#known(write, now) ??
          (write.type === 'append'
            ? this.#append(write, advance(), now, added)
            : this.#commit(write, now, advance, rows, changed))
        outcomes.push(outcome)
        if (write.idempotencyKey && outcome.status === 'done') {
          this.#requests.remember(write.idempotencyKey, outcome.position, now)
        }
      }
      for (const [kind, { position, rows: bodies }] of rows) {
        const body = Buffer.from(bodies.join(','))
        added.push({ position, kind, projectId: '', count: bodies.length, receivedAt: now, body })
      }
      for (const entry of added) this.#entries.put(positionKey(entry.position), encodeEntry(entry))
    })
    this.#stateBytes += changed.bytes
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

  /** The outcome of a request that need not be executed; null for one that must be. */
  #known({ idempotencyKey }: Write, now: number): Outcome | null {
    if (!idempotencyKey) return null
    const known = this.#requests.find(idempotencyKey, now)
    if (known) return known
    return this.#requests.isLimited(idempotencyKey, now) ? { status: 'limited' } : null
  }

  #append({ projectId, count, body }: Append, position: Position, receivedAt: number, added: Entry[]): Outcome {
    added.push({ position, kind: 'events', projectId, count, receivedAt, body })
    return { status: 'done', position }
  }

  #commit(
    { kind, stateKey, expected, readAt, state, row }: Commit,
    now: number,
    advance: () => Position,
    rows: Map<StateKind, { position: Position; rows: string[] }>,
    changed: ChangedBytes,
  ): Outcome {
    const key = Buffer.from(stateKey, 'hex')
    const current = this.#states.get(key)
    const isExpected = current
      ? current.readBigUInt64BE() === expected
      : readAt <= now && now - readAt <= READING_MEMORY_MS
    if (!isExpected) return { status: 'conflict' }
    let entry = rows.get(kind)
    if (!entry) {
      entry = { position: advance(), rows: [] }
      rows.set(kind, entry)
    }
    entry.rows.push(row)
    const value = withPosition(entry.position, Buffer.from(state))
    this.#states.put(key, value)
    changed.bytes += value.length - (current?.length ?? 0)
    return { status: 'done', position: entry.position }
  }

  async readStates(stateKeys: string[], maxBytes: number): Promise<StateReading> {
    const readAt = this.#now()
    const states: (State | null)[] = []
    let bytes = 0
    for (const stateKey of stateKeys) {
      const value = this.#states.get(Buffer.from(stateKey, 'hex'))
      bytes += value?.length ?? 0
      if (bytes > maxBytes && states.length > 0) break
      states.push(value ? { version: value.readBigUInt64BE(), state: value.toString('utf8', 8) } : null)
    }
    return { readAt, states }
  }

  async findRequest(request: IdempotencyKey): Promise<Outcome | null> {
    return this.#requests.find(request, this.#now())
  }

  async progress(projectId = ''): Promise<Progress> {
    return {
      appended: this.#appended,
      stored: this.#stored,
      pending: this.#pending.get(projectId) ?? 0,
      deletions: this.#deletions.get(projectId) ?? 0,
    }
  }

  async claim(maxBytes: number): Promise<Block | null> {
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
    const changed = new ChangedBytes()
    await transact(this.#root, () => {
      for (const { position } of block.entries) this.#entries.remove(positionKey(position))
      for (const { stateKey, version } of states) {
        const key = expiryKey(now + STATE_MEMORY_MS, STATE, Buffer.from(stateKey, 'hex'))
        this.#expiries.put(key, withPosition(version, EMPTY))
      }
      this.#sweep(now, Math.max(MIN_SWEEP, 2 * states.length), changed)
      this.#meta.put('meta', this.#metaWith(block.last, null))
    })
    this.#stateBytes += changed.bytes
    this.#stored = block.last
    this.#frozen = null
    for (const entry of block.entries) this.#count(entry, -1)
    for (const { onStored } of this.#listeners) onStored?.(block.last)
  }

  /** Removes requests that are too old to be repeated, and states that have not changed since they were stored. */
  #sweep(now: number, limit: number, changed: ChangedBytes): void {
    this.#requests.forget(now, limit)
    for (const { key, value } of this.#expiries.getRange({ end: expiryKey(now, '', EMPTY), limit })) {
      const name = key.subarray(9)
      if (key.toString('latin1', 8, 9) === REQUEST) this.#oldRequests.remove(name)
      else this.#removeState(name, value.readBigUInt64BE(), changed)
      this.#expiries.remove(key)
    }
  }

  #removeState(name: Buffer, version: Position, changed: ChangedBytes): void {
    const state = this.#states.get(name)
    if (state?.readBigUInt64BE() !== version) return
    this.#states.remove(name)
    changed.bytes -= state.length
  }

  #isFull(): boolean {
    return this.#bytes + this.#stateBytes > this.#maxBytes
  }

  /** For a journal that is full of states: without writes, no block is acknowledged, and nothing else removes them. */
  async #removeExpired(): Promise<void> {
    const now = this.#now()
    if (this.#expiries.getKeysCount({ end: expiryKey(now, '', EMPTY), limit: 1 }) === 0) return
    const changed = new ChangedBytes()
    await transact(this.#root, () => this.#sweep(now, MIN_SWEEP, changed))
    this.#stateBytes += changed.bytes
  }

  async advancePast(position: Position): Promise<void> {
    this.#advancedPast = laterOf(this.#allocated, position)
    this.#allocated = this.#advancedPast
    const isEmpty = this.#entryCount === 0
    const stored = isEmpty ? this.#advancedPast : this.#stored
    await transact(this.#root, () => {
      if (isEmpty) for (const key of this.#states.getKeys()) this.#states.remove(key)
      this.#meta.put('meta', this.#metaWith(stored, isEmpty ? null : this.#frozen))
    })
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
    if (!this.#meta.get('meta')) throw new Error('the journal cannot be read')
  }

  async close(): Promise<void> {
    await this.#root.close()
  }

  #metaWith(stored: Position, frozen: { first: Position; last: Position } | null): Meta {
    return {
      id: this.id,
      stored: String(stored),
      frozen: frozen && [String(frozen.first), String(frozen.last)],
      ...(this.#advancedPast !== START && { outranked: String(this.#advancedPast) }),
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

/** By how much a transaction changes the bytes of the states; added to the total once it is committed. */
class ChangedBytes {
  bytes = 0
}
