import type { Entry } from './journal.js'

/** Bodies kept at most; a writer that is further behind reads from the journal again. */
const MAX_BYTES = 48 * 1024 * 1024

/** A run of entries without a gap, ready to be a block. */
export interface Run {
  /** how many entries the journal had before the first of them, ever */
  before: number
  entries: Entry[]
}

/**
 * The entries that this process wrote last, kept in memory until they are stored, so that a writer in the same process
 * need not read back what was just written. Only ever a shortcut: the journal checks that nobody else wrote between.
 */
export class Tail {
  readonly #maxBytes: number
  #entries: Entry[] = []
  #before = 0
  #bytes = 0

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** @param before how many entries the journal had before these, ever */
  add(before: number, entries: Entry[]): void {
    const bytes = entries.reduce((sum, { body }) => sum + body.length, 0)
    const isNext = before === this.#before + this.#entries.length
    // Where others wrote between, what was before them is no longer next to anything.
    if (!isNext) this.#clear()
    if (this.#bytes + bytes > this.#maxBytes) return
    if (this.#entries.length === 0) this.#before = before
    this.#entries.push(...entries)
    this.#bytes += bytes
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

  /** Forgets everything up to a position. */
  forget(upTo: bigint): void {
    let count = 0
    for (const { position, body } of this.#entries) {
      if (position > upTo) break
      count++
      this.#bytes -= body.length
    }
    this.#entries.splice(0, count)
    this.#before += count
  }

  #clear(): void {
    this.#entries = []
    this.#bytes = 0
  }
}
