import { LaneOrderError } from './history.js'
import { EvictionError } from './memory-limit.js'

/** What becomes of a journal that is down when it is opened. */
export interface LateStart {
  /** Called once with the reason, before the journal is opened all the same. It is up when Redis is. */
  onDown(reason: Error): void
  /** Called once if Redis then turns out to be one that must not be used. */
  onFatal(error: Error): void
}

/** The error of a Redis that must not be used, or what it caused: waiting does not change it. Null for any other error. */
export function wrongRedis(error: unknown): Error | null {
  if (error instanceof EvictionError || error instanceof LaneOrderError) return error
  return error instanceof Error && error.cause !== undefined ? wrongRedis(error.cause) : null
}

/** Makes up for the checks of a start at which Redis was down, before the first connection to it is used. */
export class LateCheck {
  readonly #check: () => Promise<void>
  /** null if there is nothing to make up for */
  #late: LateStart | null = null
  #isReported = false

  /** @param check of the start */
  constructor(check: () => Promise<void>) {
    this.#check = check
  }

  /** @param isUp whether Redis has come up meanwhile */
  async begin(late: LateStart, isUp: boolean): Promise<void> {
    this.#late = late
    // What is wrong is reported, and the process ends.
    if (isUp) await this.after(Promise.resolve()).catch(() => undefined)
  }

  /**
   * Checks a Redis once the journal is adopted.
   * @throws the error of either
   */
  async after(adopted: Promise<void>): Promise<void> {
    try {
      await adopted
      if (!this.#late) return
      await this.#check()
      this.#late = null
    } catch (error) {
      const wrong = wrongRedis(error)
      if (wrong && this.#late && !this.#isReported) {
        this.#isReported = true
        this.#late.onFatal(wrong)
      }
      throw error
    }
  }
}
