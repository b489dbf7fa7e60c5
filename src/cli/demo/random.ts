/** Numbers that look random and are the same for a seed on every machine (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** from 0 to below 1 */
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

  /** 0 to below `end` */
  below(end: number): number {
    return Math.floor(this.next() * end)
  }

  /** The earlier ones more often. */
  early<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.next() ** 2 * choices.length)] as T
  }
}
