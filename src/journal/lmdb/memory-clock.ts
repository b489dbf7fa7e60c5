import { toMilliseconds } from '../../model/position.js'
import { encodeNumber } from './encoding.js'
import type { LmdbTables } from './tables.js'

/** Key of the table `log`. */
const REMEMBERED = Buffer.from('remembered')
/** How fast this clock catches up with the machine's after downtime, or after the machine's clock was set. */
const CATCH_UP = 2

export interface Clocks {
  /** epoch ms; default: the machine's clock */
  now?: () => number
  /** monotonic, ms; default: the monotonic clock. If only `now` is given, there is no MemoryClock, and `now` decides */
  elapsed?: () => number
}

/**
 * The clock by which the embedded journal forgets requests and ids. Forgetting cannot be undone, so a clock that is
 * wrong for an hour must not cause it: this one is never ahead of the machine's clock and runs at most CATCH_UP times
 * as fast. After downtime it needs the same time again to catch up, and requests and ids are remembered that much
 * longer.
 */
export class MemoryClock {
  readonly #log: LmdbTables['log']
  readonly #elapsed: () => number
  #time: number
  #at: number

  /** @returns null if only `now` is given */
  static of(tables: Pick<LmdbTables, 'log' | 'meta'>, { now, elapsed }: Clocks): MemoryClock | null {
    if (now && !elapsed) return null
    return new MemoryClock(tables, now ?? Date.now, elapsed ?? (() => performance.now()))
  }

  constructor({ log, meta }: Pick<LmdbTables, 'log' | 'meta'>, now: () => number, elapsed: () => number) {
    this.#log = log
    this.#elapsed = elapsed
    const noted = log.get(REMEMBERED)?.readBigUInt64BE()
    // Without a recorded time, the time of the last stored position is a lower bound.
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
    this.#log.put(REMEMBERED, encodeNumber(Math.floor(this.at(now))))
  }
}
