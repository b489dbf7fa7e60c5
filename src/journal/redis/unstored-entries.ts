import type { Entry } from '../journal.js'

/** Bodies kept at most; a writer that is further behind reads the rest from the journal again. */
const MAX_BYTES = 96 * 1024 * 1024

/** A run of entries without a gap, ready to be a block. */
export interface Run {
  /** how many entries the journal had before the first of them, ever */
  before: number
  entries: Entry[]
}

/**
 * The oldest entries that this process wrote and nobody has stored, in one run, kept in memory so that a writer in the
 * same process need not read back what was just written. Only ever a shortcut: the journal checks that the run is next.
 */
export class UnstoredEntries {
  readonly #maxBytes: number
  #entries: Entry[] = []
  #before = 0
  #bytes = 0
  /** something came that was not kept, so what comes now is not next to the run */
  #hasGap = false

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes
  }

  /**
   * @param before how many entries the journal had before these, ever
   * @returns whether they are kept
   */
  add(before: number, entries: Entry[]): boolean {
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

  /** The oldest entries, up to `maxBytes` and `maxEntries` but one at least; null where there is none. */
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

  /** Forgets everything up to a position, or all. @returns what it was */
  forget(upTo?: bigint): Entry[] {
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
