import { OwnerQueue } from './owner-queue.js'

/** How long requests may work, one after another, before the event loop looks for new ones, ms. */
const SLICE_MS = 2

export interface TurnsOptions {
  /** monotonic, ms; default: performance.now() */
  clock?: () => number
  /** calls a function in the next turn of the event loop; default: setImmediate */
  defer?: (run: () => void) => unknown
}

/**
 * Shares the time of the event loop. Otherwise, a request would have to wait for all requests of a busy client that
 * arrived just before it, in every turn of the loop that it needs. So only a slice of them runs in one turn, and the
 * owners of those that wait take turns, one request each. If the loop is not short of time, nobody waits.
 */
export class Turns {
  readonly #clock: () => number
  readonly #defer: (run: () => void) => unknown
  readonly #waiting = new OwnerQueue<() => void>()
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
    if (this.#waiting.isEmpty && now - this.#beganAt < SLICE_MS) return null
    const owner = findOwner()
    return new Promise((resolve) => {
      this.#waiting.add(owner, resolve)
    })
  }

  #begin(now: number): number {
    this.#defer(() => {
      this.#beganAt = null
      if (this.#waiting.isEmpty) return
      this.#beganAt = this.#begin(this.#clock())
      this.#runNext(this.#beganAt)
    })
    return now
  }

  /** Lets requests run until the slice is over. Each runs as far as it can before the next one is released. */
  #runNext(beganAt: number): void {
    if (this.#waiting.isEmpty || this.#clock() - beganAt >= SLICE_MS) return
    this.#waiting.next()?.()
    // A tick runs after all microtasks, so after everything the request does until it waits for something.
    queueMicrotask(() => process.nextTick(() => this.#runNext(beganAt)))
  }
}
