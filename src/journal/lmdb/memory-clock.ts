import { toMilliseconds } from '../../model/position.js'
import { positionKey } from './encoding.js'
import type { LmdbTables } from './tables.js'

/** Key of the table `log`. */
const REMEMBERED = Buffer.from('remembered')
/** So fast does this clock catch up with the machine's after a time in which nothing ran, or after that was set. */
const CATCH_UP = 2

export interface Clocks {
  /** epoch ms; default: the machine's clock, which may be set */
  now?: () => number
  /** ms since some start, which nobody sets; default: the time that passes, but if `now` is given, that is relied upon */
  elapsed?: () => number
}

/**
 * The time by which the embedded journal forgets what it remembers. What is forgotten is gone, so a clock that is wrong for an
 * hour must not decide it: this one is never ahead of the machine's, and goes on at most twice as fast as time passes. After
 * a time in which the service did not run, it is behind for as long again, and what is remembered is kept that much longer.
 */
export class MemoryClock {
  readonly #log: LmdbTables['log']
  readonly #elapsed: () => number
  #time: number
  #at: number

  /** @returns null where the clock that is given is relied upon */
  static of(tables: Pick<LmdbTables, 'log' | 'meta'>, { now, elapsed }: Clocks): MemoryClock | null {
    if (now && !elapsed) return null
    return new MemoryClock(tables, now ?? Date.now, elapsed ?? (() => performance.now()))
  }

  constructor({ log, meta }: Pick<LmdbTables, 'log' | 'meta'>, now: () => number, elapsed: () => number) {
    this.#log = log
    this.#elapsed = elapsed
    const noted = log.get(REMEMBERED)?.readBigUInt64BE()
    // A version that had no such clock has stored something last at that time.
    const known = noted === undefined ? toMilliseconds(BigInt(meta.get('meta')?.stored ?? 0)) : Number(noted)
    this.#time = Math.min(known, now())
    this.#at = this.#elapsed()
  }

  /** Epoch ms. @param now by the machine's clock */
  at(now: number): number {
    const at = this.#elapsed()
    this.#time = Math.min(now, this.#time + CATCH_UP * Math.max(0, at - this.#at))
    this.#at = at
    return this.#time
  }

  /** Notes the time for the next start. Call it within a transaction. */
  note(now: number): void {
    this.#log.put(REMEMBERED, positionKey(BigInt(Math.floor(this.at(now)))))
  }
}
