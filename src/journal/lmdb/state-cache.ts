import type { Database } from 'lmdb'
import { START } from '../../model/position.js'
import { CACHE_PART, STATE_MEMORY_MS, type StoredState } from '../journal.js'
import { EMPTY, expiryKey, type Meta } from './encoding.js'
import { type Remembered, sweep } from './execute.js'

/**
 * Maximum number of expired requests and states that an acknowledgement removes, or twice what it adds if that is more.
 */
const MIN_SWEEP = 1000

/** Limits the size of the embedded journal's cached states: when it is exceeded, the oldest lose their text. */
export class StateCache {
  readonly #remembered: Remembered
  readonly #meta: Database<Meta, string>
  readonly #maxBytes: number
  #bytes: number
  /** where the last cut ended; null: the next one begins with the first state */
  #cutUpTo: Buffer | null = null

  /** @param journalBytes limit of the journal */
  constructor(remembered: Remembered, meta: Database<Meta, string>, journalBytes: number) {
    this.#remembered = remembered
    this.#meta = meta
    this.#maxBytes = Math.floor(journalBytes * CACHE_PART)
    this.#bytes = remembered.states.cachedBytes()
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Lets states expire, removes everything that has expired, and cuts states while the cache is too large. Call it
   * within a transaction, and call the returned function once that is committed.
   */
  settle(stored: StoredState[], now: number): () => void {
    const { states } = this.#remembered
    const limit = Math.max(MIN_SWEEP, 2 * stored.length)
    const grown = states.letExpire(stored, now) + sweep(this.#remembered, now, limit)
    const cut = states.cut(this.#bytes + grown - this.#maxBytes, limit, this.#cutAfter(now))
    return () => {
      this.#cutUpTo = cut.end
      this.#add(grown + cut.grown)
    }
  }

  /** Where the next cut begins. After the clock is set back, new states expire before the end of the last cut. */
  #cutAfter(now: number): Buffer | null {
    const first = expiryKey(now + STATE_MEMORY_MS, EMPTY)
    return this.#cutUpTo && this.#cutUpTo.compare(first) > 0 ? first : this.#cutUpTo
  }

  /**
   * Counts the states that a write replaces. Call `onReplaced` within its transaction, and `done` once that is
   * committed.
   */
  replacing(): { onReplaced(state: Buffer): void; done(): void } {
    let stored = START
    let replaced = 0
    return {
      onReplaced: (state) => {
        // Read it from LMDB, because the value in memory is advanced only after the transaction that lets states
        // expire.
        if (stored === START) stored = BigInt(this.#meta.get('meta')?.stored ?? START)
        if (state.readBigUInt64BE() <= stored) replaced += state.length
      },
      done: () => this.#add(-replaced),
    }
  }

  /** Call it when all states were removed. */
  clear(): void {
    this.#bytes = 0
  }

  #add(grown: number): void {
    // States of dead letters are not counted, but replacing one subtracts it as if it had been.
    this.#bytes = Math.max(0, this.#bytes + grown)
  }
}
