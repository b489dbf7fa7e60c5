import type { WaitingEntry } from './journal.js'

/** Maximum bytes of the kept bodies; a writer that lags further reads the rest from the journal. */
const MAX_BYTES = 64 * 1024 * 1024

/** A run of entries without a gap, ready to be a block. */
export interface Run {
  /** how many entries were ever added to the journal before the first of these */
  before: number
  entries: WaitingEntry[]
}

/**
 * A run of the oldest unstored entries that this process wrote. It is kept in memory so that a writer in the same
 * process need not read them back from the journal. Only ever a shortcut: the journal checks that the run is next.
 */
export class UnstoredEntries {
  readonly #maxBytes: number
  #entries: WaitingEntry[] = []
  #before = 0
  #bytes = 0
  /** an entry was not kept, so later ones do not continue the run */
  #hasGap = false

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes
  }

  /**
   * @param before how many entries were ever added to the journal before these
   * @returns whether they are kept
   */
  add(before: number, entries: WaitingEntry[]): boolean {
    if (this.#entries.length === 0) {
      this.#before = before
      this.#hasGap = false
    }
    const bytes = entries.reduce((sum, { body }) => sum + body.length, 0)
    const isNext = !this.#hasGap && before === this.#before + this.#entries.length
    if (!isNext || this.#bytes + bytes > this.#maxBytes) {
      this.#hasGap = true
      return false
    }
    this.#entries.push(...entries)
    this.#bytes += bytes
    return true
  }

  /** The oldest entries, up to `maxBytes` and `maxEntries`, at least one; null if there are none. */
  run(maxBytes: number, maxEntries: number): Run | null {
    if (this.#entries.length === 0) return null
    let bytes = 0
    let count = 0
    for (const { body } of this.#entries) {
      count++
      bytes += body.length
      if (bytes >= maxBytes || count >= maxEntries) break
    }
    return { before: this.#before, entries: this.#entries.slice(0, count) }
  }

  /** Removes the entries up to a position, or all. @returns the removed ones */
  forget(upTo?: bigint): WaitingEntry[] {
    let count = 0
    for (const { position, body } of this.#entries) {
      if (upTo !== undefined && position > upTo) break
      count++
      this.#bytes -= body.length
    }
    this.#before += count
    return this.#entries.splice(0, count)
  }
}
