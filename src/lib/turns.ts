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
 *
 * Of an owner's requests that have begun, one is finished after another: if they took turns, the objects of all of them
 * would survive garbage collections, which takes more time than the work. New requests get every other turn.
 */
export class Turns {
  readonly #clock: () => number
  readonly #defer: (run: () => void) => unknown
  readonly #new = new OwnerQueue<() => void>()
  readonly #begun = new OwnerQueue<() => void>()
  /** whether the request that runs now is new; only ever a hint, because it may have waited for something else */
  #wasNew = false
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
    if (this.#hasTime() && this.#areNoneWaiting) {
      this.#wasNew = true
      return null
    }
    const owner = findOwner()
    return new Promise((resolve) => {
      this.#new.add(owner, resolve)
    })
  }

  /** Like `take`, for a request that was taken before and has more to do. */
  resume(findOwner: () => string): Promise<void> | null {
    const hasTime = this.#hasTime()
    if (hasTime && this.#areNoneWaiting) return null
    const owner = findOwner()
    if (hasTime && this.#new.isEmpty && this.#begun.hasOnly(owner)) return null
    return new Promise((resolve) => {
      if (this.#wasNew) this.#begun.add(owner, resolve)
      else this.#begun.addFirst(owner, resolve)
    })
  }

  get #areNoneWaiting(): boolean {
    return this.#new.isEmpty && this.#begun.isEmpty
  }

  /** Whether the slice of this turn of the loop is not over. */
  #hasTime(): boolean {
    const now = this.#clock()
    this.#beganAt ??= this.#begin(now)
    return now - this.#beganAt < SLICE_MS
  }

  #begin(now: number): number {
    this.#defer(() => {
      this.#beganAt = null
      if (this.#areNoneWaiting) return
      this.#beganAt = this.#begin(this.#clock())
      this.#runNext(this.#beganAt)
    })
    return now
  }

  /** Lets requests run until the slice is over. Each runs as far as it can before the next one is released. */
  #runNext(beganAt: number): void {
    if (this.#areNoneWaiting || this.#clock() - beganAt >= SLICE_MS) return
    this.#releaseNext()
    // A tick runs after all microtasks, so after everything the request does until it waits for something.
    queueMicrotask(() => process.nextTick(() => this.#runNext(beganAt)))
  }

  #releaseNext(): void {
    const [first, second] = this.#wasNew ? [this.#begun, this.#new] : [this.#new, this.#begun]
    const queue = first.isEmpty ? second : first
    this.#wasNew = queue === this.#new
    queue.next()?.()
  }
}
