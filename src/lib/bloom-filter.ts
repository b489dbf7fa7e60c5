/**
 * Bits that a digest sets. With BITS_PER_DIGEST, one in 80 digests that were never added seems present; with half as
 * many bits, one in 11.
 */
const HASHES = 4
const BITS_PER_DIGEST = 10
/** Bytes of the digest that choose one bit. */
const WORD_BYTES = 4
/** Bytes of a digest that are used. */
const USED_BYTES = HASHES * WORD_BYTES
const LEAST_BYTES = 64 * 1024
/** Share of set bits above which too many new digests seem present. */
const CROWDED = 0.5

/**
 * A set of digests in little memory, with false positives: a digest that seems present may never have been added, but
 * one that seems absent certainly was not.
 */
export class BloomFilter {
  readonly #bits: Buffer
  /** masks the number of a bit */
  readonly #mask: number
  readonly #maxBytes: number
  #set = 0

  /**
   * @param expected digests
   * @param maxBytes of memory, a power of 2
   */
  constructor(expected: number, maxBytes: number) {
    let bytes = LEAST_BYTES
    while (bytes < maxBytes && bytes * 8 < expected * BITS_PER_DIGEST) bytes *= 2
    this.#bits = Buffer.alloc(bytes)
    this.#mask = bytes * 8 - 1
    this.#maxBytes = maxBytes
  }

  /** Size in memory, bytes. */
  get bytes(): number {
    return this.#bits.length
  }

  /** Whether a larger filter is needed, because many bits are set. */
  get isCrowded(): boolean {
    return this.#bits.length < this.#maxBytes && this.#set > CROWDED * (this.#mask + 1)
  }

  /** @param digest at least 16 bytes from `offset` on, as random as SHA-256 */
  add(digest: Buffer, offset = 0): void {
    for (let at = offset; at < offset + USED_BYTES; at += WORD_BYTES) {
      const bit = digest.readUInt32LE(at) & this.#mask
      const byte = this.#bits[bit >>> 3] ?? 0
      const one = 1 << (bit & 7)
      if (byte & one) continue
      this.#bits[bit >>> 3] = byte | one
      this.#set++
    }
  }

  /** @returns false if it was never added */
  mayHave(digest: Buffer, offset = 0): boolean {
    for (let at = offset; at < offset + USED_BYTES; at += WORD_BYTES) {
      const bit = digest.readUInt32LE(at) & this.#mask
      if (((this.#bits[bit >>> 3] ?? 0) & (1 << (bit & 7))) === 0) return false
    }
    return true
  }
}
