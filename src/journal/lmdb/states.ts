import { randomUUID } from 'node:crypto'
import { type Position, START } from '../../model/position.js'
import {
  type Commit,
  READING_MEMORY_MS,
  STATE_MEMORY_MS,
  type State,
  type StatesMark,
  type StoredState,
} from '../journal.js'
import type { KeptState } from '../relocation.js'
import type { Draft } from './draft.js'
import { EMPTY, expiryKey, nameIn, withPosition } from './encoding.js'
import type { LmdbTables } from './tables.js'

/** Follows the version of a state whose text was cut off; no state's text begins with it. */
const CUT = Buffer.from([0])
/** A cut state has this many bytes. A tombstone has fewer and is never cut, because the store may remove its row. */
const CUT_BYTES = 8 + CUT.length

/**
 * The states of the embedded journal and their expiry. Once stored, they are a cache until they expire. Call the
 * methods that change them within a transaction, except those that take a draft. `letExpire`, `sweep` and `cut` return
 * by how many bytes the cache grows once the transaction is committed.
 */
export class LmdbStates {
  readonly #tables: Pick<LmdbTables, 'states' | 'expiries'>
  /** only in memory, because only this process removes states */
  #mark: Omit<StatesMark, 'readAt'> = { mark: randomUUID(), madeAt: START }

  constructor(tables: Pick<LmdbTables, 'states' | 'expiries'>) {
    this.#tables = tables
  }

  get mark(): Omit<StatesMark, 'readAt'> {
    return this.#mark
  }

  /**
   * Runs work that removes states while there is no mark, because readings in the meantime may or may not have the
   * states.
   * @param last returns the last position that was assigned by the end of the work
   */
  async unmarked(work: () => Promise<void>, last: () => Position): Promise<void> {
    this.#mark = { mark: null, madeAt: START }
    try {
      await work()
    } finally {
      this.#mark = { mark: randomUUID(), madeAt: last() }
    }
  }

  /** The bytes of the cached states. */
  cachedBytes(): number {
    let bytes = 0
    for (const { state } of this.#expiringStates()) bytes += state.length
    return bytes
  }

  /** The states of the first keys: those that fit into `maxBytes`, but at least one. */
  read(stateKeys: string[], maxBytes: number): (State | null)[] {
    const states: (State | null)[] = []
    let bytes = 0
    for (const stateKey of stateKeys) {
      const value = this.#tables.states.get(Buffer.from(stateKey, 'hex'))
      bytes += value?.length ?? 0
      if (bytes > maxBytes && states.length > 0) break
      states.push(value ? { version: value.readBigUInt64BE(), state: isCut(value) ? null : decodeState(value) } : null)
    }
    return states
  }

  /** Whether a state is still what was read. */
  isExpected(
    { stateKey, expected, readAt }: Pick<Commit, 'stateKey' | 'expected' | 'readAt'>,
    now: number,
    draft: Draft,
  ): boolean {
    const current = draft.get(this.#tables.states, Buffer.from(stateKey, 'hex'))
    return current ? current.readBigUInt64BE() === expected : readAt <= now && now - readAt <= READING_MEMORY_MS
  }

  put(stateKey: string, version: Position, state: string, draft: Draft): void {
    draft.put(this.#tables.states, Buffer.from(stateKey, 'hex'), withPosition(version, Buffer.from(state)))
  }

  /** Lets these versions expire, because the store has them. */
  letExpire(stored: StoredState[], now: number): number {
    const { states, expiries } = this.#tables
    let grown = 0
    for (const { stateKey, version } of stored) {
      const name = Buffer.from(stateKey, 'hex')
      const state = states.get(name)
      if (state?.readBigUInt64BE() !== version) continue
      expiries.put(expiryKey(now + STATE_MEMORY_MS, name), withPosition(version, EMPTY))
      grown += state.length
    }
    return grown
  }

  /**
   * Removes the texts of the cached states that expire first, up to `limit` of them, and keeps their versions.
   * @param excess bytes to be removed
   * @param after where the last cut ended; null if that is unknown
   */
  cut(excess: number, limit: number, after: Buffer | null): { grown: number; end: Buffer | null } {
    const { states } = this.#tables
    let grown = 0
    let end = after
    for (const { key, name, state } of this.#expiringStates({ limit, ...(after && { start: after }) })) {
      if (-grown >= excess) break
      end = key
      if (state.length <= CUT_BYTES) continue
      states.put(name, Buffer.concat([state.subarray(0, 8), CUT]))
      grown -= state.length - CUT_BYTES
    }
    return { grown, end }
  }

  hasExpired(now: number): boolean {
    return this.#tables.expiries.getKeysCount({ end: expiryKey(now, EMPTY), limit: 1 }) > 0
  }

  /** Removes expired states that have not changed since they were stored. */
  sweep(now: number, limit: number): number {
    const { expiries } = this.#tables
    let grown = 0
    for (const { key, value } of expiries.getRange({ end: expiryKey(now, EMPTY), limit })) {
      grown += this.#remove(nameIn(key), value.readBigUInt64BE())
      expiries.remove(key)
    }
    return grown
  }

  /** The states that do not expire. */
  *kept(): Generator<KeptState> {
    const expiring = this.#expiring()
    for (const { key, value } of this.#tables.states.getRange()) {
      const stateKey = key.toString('hex')
      const version = value.readBigUInt64BE()
      if (!expiring.has(`${stateKey} ${version}`)) yield { stateKey, version, state: decodeState(value) }
    }
  }

  /** Adds a state of another journal, unless the same or a later version is here. */
  add({ stateKey, version, state }: KeptState, draft: Draft): void {
    const here = draft.get(this.#tables.states, Buffer.from(stateKey, 'hex'))?.readBigUInt64BE()
    if (here === undefined || here < version) this.put(stateKey, version, state, draft)
  }

  /** Keeps only the states that do not expire and belong to this journal. */
  keep(isOwn: (stateKey: string) => boolean): void {
    const expiring = this.#expiring()
    for (const { key, value } of this.#tables.states.getRange()) {
      const stateKey = key.toString('hex')
      const isKept = !expiring.has(`${stateKey} ${value.readBigUInt64BE()}`) && isOwn(stateKey)
      if (!isKept) this.#tables.states.remove(key)
    }
  }

  /** The versions that expire, as `<state key> <version>`. */
  #expiring(): Set<string> {
    const expiring = new Set<string>()
    for (const { key, value } of this.#tables.expiries.getRange()) {
      expiring.add(`${nameIn(key).toString('hex')} ${value.readBigUInt64BE()}`)
    }
    return expiring
  }

  /** The states that expire, in order of their expiry. */
  *#expiringStates(range: { start?: Buffer; limit?: number } = {}): Generator<{
    key: Buffer
    name: Buffer
    state: Buffer
  }> {
    const { states, expiries } = this.#tables
    for (const { key, value } of expiries.getRange(range)) {
      const name = nameIn(key)
      const state = states.get(name)
      if (state?.readBigUInt64BE() === value.readBigUInt64BE()) yield { key, name, state }
    }
  }

  clear(): void {
    for (const key of this.#tables.states.getKeys()) this.#tables.states.remove(key)
  }

  #remove(name: Buffer, version: Position): number {
    const state = this.#tables.states.get(name)
    if (state?.readBigUInt64BE() !== version) return 0
    this.#tables.states.remove(name)
    return -state.length
  }
}

function isCut(value: Buffer): boolean {
  return value.length === CUT_BYTES && value[8] === CUT[0]
}

function decodeState(value: Buffer): string {
  return value.toString('utf8', 8)
}
