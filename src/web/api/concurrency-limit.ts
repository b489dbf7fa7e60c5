interface Turn {
  signal?: AbortSignal | undefined
  /** who comes at the same time begins in this order, the least first */
  priority?: number
}

/** Lets so many things run at a time; the others wait for their turn: by their priority, then in the order in which they came. */
export class ConcurrencyLimit {
  readonly #waiting: { priority: number; begin: () => void }[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** @param turn `signal` takes `act` out of the queue, which then rejects with its reason; once it runs, it is its own matter */
  async run<T>(act: () => Promise<T>, turn: Turn = {}): Promise<T> {
    await this.#wait(turn)
    try {
      return await act()
    } finally {
      this.#free++
      this.#begin()
    }
  }

  #wait({ signal, priority = 0 }: Turn): Promise<void> {
    signal?.throwIfAborted()
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(signal?.reason)
      }
      const begin = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const waiting = { priority, begin }
      const before = this.#waiting.findIndex((other) => other.priority > priority)
      this.#waiting.splice(before < 0 ? this.#waiting.length : before, 0, waiting)
      signal?.addEventListener('abort', leave, { once: true })
      // The others that come now are to take their places first.
      setTimeout(() => this.#begin())
    })
  }

  #begin(): void {
    while (this.#free > 0) {
      const next = this.#waiting.shift()
      if (!next) return
      this.#free--
      next.begin()
    }
  }
}
