import { INSERT_ID_BYTES } from '../../model/insert-id.js'

/** Filter bytes per page: 13 bits for each of 160 ids, so that only 1 % of unknown ids need a look at their page. */
const PART_BYTES = 256
/** Bytes of the whole filter. With more than 10 million ids, a page has fewer and more ids need a look. */
const MAX_BYTES = 16 * 1024 * 1024
const MIN_PART_BYTES = 8
/** Offsets of the byte pairs of an id that each set a bit; they do not choose the page. */
const BITS_AT = [8, 10, 12]

/**
 * A Bloom filter of each page, which rules out most unknown ids without reading the page. It is a cache: a page that
 * was not noted may have any id.
 */
export class PageFilter {
  readonly #bits: Uint8Array
  readonly #partBytes: number
  /** 1 for the pages that were noted */
  readonly #noted: Uint8Array

  /** @param pages a power of two */
  constructor(pages: number) {
    this.#partBytes = Math.max(MIN_PART_BYTES, Math.min(PART_BYTES, MAX_BYTES / pages))
    this.#bits = new Uint8Array(pages * this.#partBytes)
    this.#noted = new Uint8Array(pages)
  }

  isNoted(page: number): boolean {
    return this.#noted[page] === 1
  }

  mayHave(page: number, ids: Buffer, at: number): boolean {
    if (this.#noted[page] !== 1) return true
    for (const from of BITS_AT) {
      const bit = this.#findBit(ids, at + from)
      if (((this.#bits[page * this.#partBytes + (bit >>> 3)] ?? 0) & (1 << (bit & 7))) === 0) return false
    }
    return true
  }

  /** Records the ids of a page. @param ids all ids of the page */
  note(page: number, ids: Buffer): void {
    const start = page * this.#partBytes
    this.#bits.fill(0, start, start + this.#partBytes)
    for (let at = 0; at < ids.length; at += INSERT_ID_BYTES) {
      for (const from of BITS_AT) {
        const bit = this.#findBit(ids, at + from)
        const byte = start + (bit >>> 3)
        this.#bits[byte] = (this.#bits[byte] ?? 0) | (1 << (bit & 7))
      }
    }
    this.#noted[page] = 1
  }

  #findBit(ids: Buffer, at: number): number {
    return ((ids[at] ?? 0) | ((ids[at + 1] ?? 0) << 8)) & (this.#partBytes * 8 - 1)
  }
}
