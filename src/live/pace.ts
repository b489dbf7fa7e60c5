import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'

/** How long sending may keep the thread at a time, ms. */
const SLICE_MS = 5
/** Over how long it is measured what else the thread does, ms; and from which share on it is short of time. */
const WINDOW_MS = 500
const BUSY_SHARE = 0.5
/** Pauses between slices, as a multiple of them, while it is: sending has a twentieth of the thread then. */
const REST = 19

/** Shares the thread between sending to listeners and everything else, which comes first. */
export class Pace {
  #before = performance.eventLoopUtilization()
  #ownMs = 0
  #isShort = false
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
    this.#ownMs += ms
    this.#measure()
    await (this.#isShort ? wait(Math.ceil(REST * ms)) : turn())
    this.start()
  }

  #measure(): void {
    const { active, idle } = performance.eventLoopUtilization(this.#before)
    const all = active + idle
    if (all < WINDOW_MS) return
    this.#isShort = (active - this.#ownMs) / all > BUSY_SHARE
    this.#before = performance.eventLoopUtilization()
    this.#ownMs = 0
  }
}
