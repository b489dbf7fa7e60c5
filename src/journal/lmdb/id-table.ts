import { INSERT_ID_BYTES } from '../../model/insert-id.js'

const WORD_BYTES = 4
const WORDS = INSERT_ID_BYTES / WORD_BYTES
/** The word of an id that chooses its slot: the first one of its digest. */
const PREFIX = 1
/** Small, because a bucket of most senders has only a handful of ids. */
const FIRST_BITS = 3

/**
 * A set of ids in one array, which the garbage collector does not scan: 32 to 64 bytes per id. Ids are in the order of
 * their prefixes, unless they had to take the next free slot.
 */
export class IdTable {
  /** there are 2^bits slots of one id each; all zeros: free */
  #bits = FIRST_BITS
  #words = new Int32Array(WORDS << FIRST_BITS)
  #size = 0

  get size(): number {
    return this.#size
  }

  has(ids: Buffer, at: number): boolean {
    return !this.#isFree(this.#find(ids, at))
  }

  /** @returns whether it was missing */
  add(ids: Buffer, at: number): boolean {
    const place = this.#find(ids, at)
    if (!this.#isFree(place)) return false
    for (let i = 0; i < WORDS; i++) this.#words[place + i] = ids.readInt32BE(at + i * WORD_BYTES)
    if (++this.#size * 2 > 1 << this.#bits) this.#grow()
    return true
  }

  /** All ids, one after another. */
  all(): Buffer {
    const places: number[] = []
    for (let place = 0; place < this.#words.length; place += WORDS) if (!this.#isFree(place)) places.push(place)
    return this.#at(places)
  }

  /** The ids whose prefix begins with these bits. */
  withPrefix(number: number, bits: number): Buffer {
    const words = this.#words
    const spread = this.#bits - bits
    const first = spread >= 0 ? number * 2 ** spread : number >>> -spread
    const end = (first + 2 ** Math.max(0, spread)) * WORDS
    const places: number[] = []
    // An id can be after the last slot of its prefix, up to the first free slot. At least half of all slots are free.
    for (let at = first * WORDS; ; at += WORDS) {
      const place = at & (words.length - 1)
      const isFree = this.#isFree(place)
      if (isFree && at >= end) return this.#at(places)
      if (!isFree && (words[place + PREFIX] ?? 0) >>> (32 - bits) === number) places.push(place)
    }
  }

  #at(places: number[]): Buffer {
    const ids = Buffer.allocUnsafe(places.length * INSERT_ID_BYTES)
    let end = 0
    for (const place of places) {
      for (let i = 0; i < WORDS; i++) end = ids.writeInt32BE(this.#words[place + i] ?? 0, end)
    }
    return ids
  }

  /** The slot of an id, or the free slot that it would take. */
  #find(ids: Buffer, at: number): number {
    const words = this.#words
    const first = ids.readInt32BE(at)
    const prefix = ids.readInt32BE(at + WORD_BYTES)
    const third = ids.readInt32BE(at + 2 * WORD_BYTES)
    const fourth = ids.readInt32BE(at + 3 * WORD_BYTES)
    for (let place = this.#findSlot(prefix); ; place = this.#after(place)) {
      const isSame =
        words[place + PREFIX] === prefix &&
        words[place] === first &&
        words[place + 2] === third &&
        words[place + 3] === fourth
      if (isSame || this.#isFree(place)) return place
    }
  }

  #findSlot(prefix: number): number {
    return (prefix >>> (32 - this.#bits)) * WORDS
  }

  #after(place: number): number {
    return (place + WORDS) & (this.#words.length - 1)
  }

  #isFree(place: number): boolean {
    const words = this.#words
    return words[place] === 0 && words[place + 1] === 0 && words[place + 2] === 0 && words[place + 3] === 0
  }

  #grow(): void {
    const old = this.#words
    this.#bits++
    this.#words = new Int32Array(2 * old.length)
    for (let from = 0; from < old.length; from += WORDS) {
      if (old[from] === 0 && old[from + 1] === 0 && old[from + 2] === 0 && old[from + 3] === 0) continue
      let place = this.#findSlot(old[from + PREFIX] ?? 0)
      while (!this.#isFree(place)) place = this.#after(place)
      for (let i = 0; i < WORDS; i++) this.#words[place + i] = old[from + i] ?? 0
    }
  }
}
