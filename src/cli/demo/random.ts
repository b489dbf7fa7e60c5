/** A pseudo-random generator that gives the same numbers for a seed on every machine (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  /** Returns a whole number from 0 (inclusive) to `end` (exclusive). */
  below(end: number): number {
    return Math.floor(this.next() * end)
  }

  /** Returns the seed of another generator. */
  seed(): number {
    return this.below(2 ** 32)
  }

  /** Picks one of the choices, earlier ones more often. */
  early<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.next() ** 2 * choices.length)] as T
  }

  /** Picks one of the choices by its weight. */
  pick<T>({ choices, ends, total }: Weighted<T>): T {
    const at = this.next() * total
    return choices[ends.findIndex((end) => end > at)] as T
  }

  /** Draws from a log-normal distribution; a `spread` of 0 always gives the median. */
  logNormal(median: number, spread: number): number {
    // The Box-Muller transform yields two numbers; one is enough.
    const normal = Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next())
    return median * Math.exp(spread * normal)
  }
}

/** Choices with weights, for `Random.pick`. */
export interface Weighted<T> {
  choices: readonly T[]
  /** sums of the weights, up to each choice */
  ends: readonly number[]
  total: number
}

export function weighted<T>(entries: readonly (readonly [weight: number, choice: T])[]): Weighted<T> {
  let total = 0
  const ends = entries.map(([weight]) => {
    total += weight
    return total
  })
  return { choices: entries.map(([, choice]) => choice), ends, total }
}
