/** Maximum size of a step. */
interface StepLimit {
  rows: number
  bytes: number
}

/** Maximum number of halvings, which leaves about a hundred events. */
const MAX_HALVINGS = 10
/** After this many steps without a failure, the size doubles again. */
const ENOUGH_SUCCESSES = 10

/** The size of steps: smaller after one that took too much memory or time, then growing again. */
export class StepSize {
  /** limits of the next step; always the same object */
  readonly limit: StepLimit
  readonly #full: StepLimit
  #halvings = 0
  #successes = 0

  constructor(full: StepLimit) {
    this.#full = full
    this.limit = { ...full }
  }

  noteFailure(): void {
    this.#halve(Math.min(MAX_HALVINGS, this.#halvings + 1))
  }

  noteSuccess(): void {
    this.#successes++
    if (this.#halvings > 0 && this.#successes >= ENOUGH_SUCCESSES) this.#halve(this.#halvings - 1)
  }

  #halve(times: number): void {
    this.#halvings = times
    this.#successes = 0
    this.limit.rows = Math.max(1, Math.floor(this.#full.rows / 2 ** times))
    this.limit.bytes = Math.max(1, Math.floor(this.#full.bytes / 2 ** times))
  }
}
