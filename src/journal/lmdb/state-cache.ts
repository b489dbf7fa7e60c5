import type { Database } from 'lmdb'
import { START } from '../../model/position.js'
import { CACHE_PART, STATE_MEMORY_MS, type StoredState } from '../journal.js'
import { EMPTY, expiryKey, type Meta } from './encoding.js'
import { type Remembered, sweep } from './execute.js'

/** An acknowledgement removes up to this many expired requests and states, or twice as many as it adds if that is more. */
const MIN_SWEEP = 1000

/** How large the cached states of the embedded journal are, and which of them lose their text when that is too much. */
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
   * Lets states expire, removes those that have expired, and all else that is forgotten by now, and cuts those that are too
   * many. Call it within a transaction, and what it returns once that is committed.
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

  /** Where the next cut begins: a clock that was set back lets states expire before those where the last one ended. */
  #cutAfter(now: number): Buffer | null {
    const first = expiryKey(now + STATE_MEMORY_MS, EMPTY)
    return this.#cutUpTo && this.#cutUpTo.compare(first) > 0 ? first : this.#cutUpTo
  }

  /** Counts the states that a write replaces. Call `onReplaced` within its transaction, and `done` once that is committed. */
  replacing(): { onReplaced(state: Buffer): void; done(): void } {
    let stored = START
    let replaced = 0
    return {
      onReplaced: (state) => {
        // Not from memory, where it is advanced only after the transaction that lets states expire.
        if (stored === START) stored = BigInt(this.#meta.get('meta')?.stored ?? START)
        if (state.readBigUInt64BE() <= stored) replaced += state.length
      },
      done: () => this.#add(-replaced),
    }
  }

  /** All states were removed. */
  clear(): void {
    this.#bytes = 0
  }

  #add(grown: number): void {
    // Those of dead letters are not counted, but one that is replaced looks as if it had been.
    this.#bytes = Math.max(0, this.#bytes + grown)
  }
}
