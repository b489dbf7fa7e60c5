interface WaitingTaker {
  bytes: number
  resolve(): void
}

/** Limits the bytes that one purpose takes in memory. Callers that need more than are left wait in line. */
export class ByteBudget {
  readonly #size: number
  #taken = 0
  readonly #waiting: WaitingTaker[] = []

  /** @param size in bytes */
  constructor(size: number) {
    this.#size = size
  }

  /**
   * Resolves when the bytes are available, in the order of the calls. A request for more than the whole budget is
   * granted when nothing else is taken. A caller that waits must not hold bytes of the same budget, or callers may
   * deadlock.
   */
  take(bytes: number): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ bytes, resolve })
      this.#grant()
    })
  }

  /** Bytes that are not taken; negative if too many are. */
  get left(): number {
    return this.#size - this.#taken
  }

  /** Like `take`, but takes nothing if the caller would have to wait. @returns whether the bytes were taken */
  tryTake(bytes: number): boolean {
    if (this.#waiting.length > 0 || !this.#fits(bytes)) return false
    this.#taken += bytes
    return true
  }

  /** Takes bytes that are already in memory, even if the budget is exhausted. */
  force(bytes: number): void {
    this.#taken += bytes
  }

  give(bytes: number): void {
    this.#taken -= bytes
    this.#grant()
  }

  #grant(): void {
    for (;;) {
      const [next] = this.#waiting
      if (!next || !this.#fits(next.bytes)) return
      this.#waiting.shift()
      this.#taken += next.bytes
      next.resolve()
    }
  }

  #fits(bytes: number): boolean {
    return this.#taken === 0 || this.#taken + bytes <= this.#size
  }
}
