/**
 * As soon as this many requests are waiting, they are written. With a lower limit each request costs more CPU; with a
 * higher limit, all clients could be waiting for one write while this thread is idle.
 */
const ENOUGH = 32

/**
 * Decides when the waiting requests are written, so that requests which arrive together share a write. Those that
 * arrive while a write is in flight gather for the next one.
 */
export class Gathering {
  readonly #waiting: () => number
  #enough: (() => void) | null = null

  /** @param waiting returns the number of waiting requests */
  constructor(waiting: () => number) {
    this.#waiting = waiting
  }

  /** Resolves after a turn of the event loop without a new request, or as soon as ENOUGH are waiting. */
  async done(): Promise<void> {
    for (let before = -1; this.#waiting() < ENOUGH && this.#waiting() !== before; ) {
      before = this.#waiting()
      await new Promise<void>((resolve) => {
        this.#enough = resolve
        setImmediate(resolve)
      })
    }
  }

  /** Call it after adding a request to those that wait. */
  note(): void {
    if (this.#enough && this.#waiting() >= ENOUGH) this.#enough()
  }
}
