/**
 * Maximum number of buckets that are not full. Further names are not limited: if they shared one bucket, a client with
 * ten thousand addresses (an IPv6 /48 is enough) could lock everyone else out.
 */
const MAX_BUCKETS = 10_000
/** Minimum time between two sweeps that remove full buckets, ms. */
const SWEEP_MS = 1_000
/** Tolerance for rounding errors of tokens, so that a client is not told to wait another second. */
const ROUNDING_MS = 1e-6

/** The rate at which a bucket fills. */
export interface Rate {
  /** above 0 */
  tokens: number
  inMs: number
}

interface Bucket {
  /** tokens at the time `at`; negative for a debt */
  level: number
  /** ms */
  at: number
  /** the spender that made the debt; null without one */
  debtor: number | null
}

/**
 * A bucket of tokens for each name, in this process. A bucket begins full, fills at a steady rate, and may run into
 * debt: a cost is often known only afterwards. A debt belongs to one spender, even if others spend at the same time.
 * Unlike a count per minute, it does not allow the tokens of two minutes in one burst.
 */
export class TokenBuckets {
  readonly #rate: Rate
  readonly #burst: number
  readonly #buckets = new Map<string, Bucket>()
  #sweptAt = Number.NEGATIVE_INFINITY

  /** @param burst how many tokens a full bucket holds */
  constructor(rate: Rate, burst: number) {
    this.#rate = rate
    this.#burst = burst
  }

  /** @returns ms until the name's bucket holds a token; 0 if it does */
  wait(name: string, now: number): number {
    const bucket = this.#buckets.get(name)
    if (!bucket) return 0
    const missing = Math.min(1, this.#burst) - this.#computeLevel(bucket, now)
    return Math.max(0, Math.ceil((missing * this.#rate.inMs) / this.#rate.tokens - ROUNDING_MS))
  }

  /** How many names have to wait. */
  countEmpty(now: number): number {
    return [...this.#buckets.keys()].filter((name) => this.wait(name, now) > 0).length
  }

  /**
   * Takes tokens out of the name's bucket, whether or not it holds them.
   * @param amount negative to put tokens back
   * @param spender may make a debt and increase it
   * @returns whether the spender may continue: false if another spender's debt is not paid off
   */
  spend(name: string, amount: number, now: number, spender = 0): boolean {
    let bucket = this.#buckets.get(name)
    if (!bucket) {
      if (this.#isCrowded(now)) return true
      bucket = { level: this.#burst, at: now, debtor: null }
      this.#buckets.set(name, bucket)
    }
    const before = this.#computeLevel(bucket, now)
    if (before >= 0) bucket.debtor = null
    bucket.level = Math.min(this.#burst, before - amount)
    bucket.at = now
    if (bucket.level < 0) bucket.debtor ??= spender
    return bucket.level >= 0 || bucket.debtor === spender
  }

  #computeLevel(bucket: Bucket, now: number): number {
    // A clock that was set back neither fills nor empties a bucket, which fills again from there.
    bucket.at = Math.min(bucket.at, now)
    return Math.min(this.#burst, bucket.level + ((now - bucket.at) * this.#rate.tokens) / this.#rate.inMs)
  }

  /** Whether there is no room for another bucket, even without those that are full again. */
  #isCrowded(now: number): boolean {
    if (this.#buckets.size < MAX_BUCKETS) return false
    if (Math.abs(now - this.#sweptAt) >= SWEEP_MS) {
      this.#sweptAt = now
      for (const [name, bucket] of this.#buckets) {
        if (this.#computeLevel(bucket, now) >= this.#burst) this.#buckets.delete(name)
      }
    }
    return this.#buckets.size >= MAX_BUCKETS
  }
}
