import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import { ThreadLoad } from '../lib/thread-load.js'

/** Longest time that sending may keep the thread, ms. */
const SLICE_MS = 5
/**
 * Length of the pauses between slices, as a multiple of a slice, while the thread is short of time. Sending then gets a
 * twentieth of the time.
 */
const REST = 19

/** Shares the thread between sending to listeners and everything else, which comes first. */
export class Pace {
  readonly #load = new ThreadLoad()
  #startedAt = 0

  /** Begins a slice. */
  start(): void {
    this.#startedAt = performance.now()
  }

  /** Whether the slice has lasted long enough. */
  get isOver(): boolean {
    return performance.now() - this.#startedAt >= SLICE_MS
  }

  /** Ends a slice, yields the thread to others, and begins the next slice. */
  async yieldToOthers(): Promise<void> {
    // Pushed data is written to the sockets at the end of this turn.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    const ms = performance.now() - this.#startedAt
    this.#load.exclude(ms)
    await (this.#load.isShort ? wait(Math.ceil(REST * ms)) : turn())
    this.start()
  }
}
