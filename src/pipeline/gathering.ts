/**
 * So many requests are written at once, before the rest of their turn is read. With fewer, each request costs more; with more,
 * clients that each wait for their answer would all wait for the same write, while this thread has nothing to do.
 */
const ENOUGH = 32

/**
 * Says when what waits is to be written: requests that arrive together share a write, and those that arrive while it is in
 * flight gather for the next.
 */
export class Gathering {
  readonly #waiting: () => number
  #enough: (() => void) | null = null

  /** @param waiting how many requests do */
  constructor(waiting: () => number) {
    this.#waiting = waiting
  }

  /** Resolves once a turn of the event loop has brought no more requests, or as soon as there are enough. */
  async done(): Promise<void> {
    for (let before = -1; this.#waiting() < ENOUGH && this.#waiting() !== before; ) {
      before = this.#waiting()
      await new Promise<void>((resolve) => {
        this.#enough = resolve
        setImmediate(resolve)
      })
    }
  }

  /** Call it when a request has begun to wait. */
  note(): void {
    if (this.#enough && this.#waiting() >= ENOUGH) this.#enough()
  }
}
