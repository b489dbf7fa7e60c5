interface Turn {
  signal?: AbortSignal | undefined
  /** waiters that arrive together start in this order, the smallest first */
  priority?: number
}

/** Limits concurrency; waiters run by priority, then first in, first out. */
export class ConcurrencyLimit {
  readonly #waiting: { priority: number; begin: () => void }[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /**
   * @param turn aborting `signal` removes `act` from the queue and rejects with its reason; once started, `act` is
   * not stopped
   */
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
      // Lets callers of the same tick enqueue first.
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
