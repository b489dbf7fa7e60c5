import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import { ThreadLoad } from '../lib/thread-load.js'

/** How long sending may keep the thread at a time, ms. */
const SLICE_MS = 5
/**
 * Pauses between slices, as a multiple of them, while the thread is short of time; sending then gets a twentieth of
 * it.
 */
const REST = 19

/** Shares the thread between sending to listeners and everything else, which comes first. */
export class Pace {
  readonly #load = new ThreadLoad()
  #startedAt = 0

  /** A slice begins. */
  start(): void {
    this.#startedAt = performance.now()
  }

  /** Whether the slice has lasted long enough. */
  get isOver(): boolean {
    return performance.now() - this.#startedAt >= SLICE_MS
  }

  /** Ends a slice, lets others have the thread, and begins the next one. */
  async breathe(): Promise<void> {
    // What was pushed is written to the sockets at the end of this turn.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    const ms = performance.now() - this.#startedAt
    this.#load.exclude(ms)
    await (this.#load.isShort ? wait(Math.ceil(REST * ms)) : turn())
    this.start()
  }
}
