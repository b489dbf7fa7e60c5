/** Over how long it is measured, ms; and from which share on the thread is short of time. */
const WINDOW_MS = 500
const BUSY_SHARE = 0.5

/** Whether this thread has much to do: over the last half second, or since it was last asked where that is longer. */
export class ThreadLoad {
  #before = performance.eventLoopUtilization()
  #ownMs = 0
  #isShort = false

  /** Time, in ms, that the asker took itself, and would give to others. */
  exclude(ms: number): void {
    this.#ownMs += ms
  }

  get isShort(): boolean {
    const { active, idle } = performance.eventLoopUtilization(this.#before)
    const all = active + idle
    if (all < WINDOW_MS) return this.#isShort
    this.#isShort = (active - this.#ownMs) / all > BUSY_SHARE
    this.#before = performance.eventLoopUtilization()
    this.#ownMs = 0
    return this.#isShort
  }
}
