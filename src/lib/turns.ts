/** How long requests may work, one after another, before the event loop looks for new ones, ms. */
const SLICE_MS = 2

export interface TurnsOptions {
  /** monotonic, ms; default: performance.now() */
  clock?: () => number
  /** calls a function in the next turn of the event loop; default: setImmediate */
  defer?: (run: () => void) => unknown
}

/**
 * Shares the time of the event loop. Otherwise a client with many requests would have all of them handled before a
 * request that arrives a moment later, on every turn of the loop that this one needs. So only a slice of them runs in
 * one turn, and the owners of those that wait take turns, one request each. If the loop is not short of time, nobody
 * waits.
 */
export class Turns {
  readonly #clock: () => number
  readonly #defer: (run: () => void) => unknown
  /** by owner, the next one first */
  readonly #waiting = new Map<string, (() => void)[]>()
  /** when the first request began in this turn of the loop; null if there was none yet */
  #beganAt: number | null = null

  constructor({ clock = () => performance.now(), defer = setImmediate }: TurnsOptions = {}) {
    this.#clock = clock
    this.#defer = defer
  }

  /**
   * @param findOwner called only if the request has to wait
   * @returns when a request may be worked on; null: immediately, which costs no promise
   */
  take(findOwner: () => string): Promise<void> | null {
    const now = this.#clock()
    this.#beganAt ??= this.#begin(now)
    if (this.#waiting.size === 0 && now - this.#beganAt < SLICE_MS) return null
    const owner = findOwner()
    return new Promise((resolve) => {
      const queue = this.#waiting.get(owner)
      if (queue) queue.push(resolve)
      else this.#waiting.set(owner, [resolve])
    })
  }

  #begin(now: number): number {
    this.#defer(() => {
      this.#beganAt = null
      if (this.#waiting.size === 0) return
      this.#beganAt = this.#begin(this.#clock())
      this.#runNext(this.#beganAt)
    })
    return now
  }

  /** Lets requests run until the slice is over. Each runs as far as it can before the next one is released. */
  #runNext(beganAt: number): void {
    if (this.#waiting.size === 0 || this.#clock() - beganAt >= SLICE_MS) return
    this.#next()?.()
    // Ticks come after all microtasks, and so after whatever the request does until it waits for something.
    queueMicrotask(() => process.nextTick(() => this.#runNext(beganAt)))
  }

  #next(): (() => void) | undefined {
    for (const [owner, queue] of this.#waiting) {
      const first = queue.shift()
      this.#waiting.delete(owner)
      if (queue.length > 0) this.#waiting.set(owner, queue)
      return first
    }
    return undefined
  }
}
