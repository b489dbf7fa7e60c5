import { OtherVersionError } from '../../contract/errors.js'
import { LaneOrderError } from './history.js'
import { EvictionError } from './memory-limit.js'

/** Callbacks for a journal whose Redis is down when it is opened. */
export interface LateStart {
  /** Called once with the reason. The journal is still opened, and is up as soon as Redis is. */
  onDown(reason: Error): void
  /** Called once if Redis later turns out to be one that must not be used. */
  onFatal(error: Error): void
}

/** The error or its cause, if it means that a Redis must not be used, so that waiting is pointless; otherwise null. */
export function wrongRedis(error: unknown): Error | null {
  const isWrong =
    error instanceof EvictionError || error instanceof LaneOrderError || error instanceof OtherVersionError
  if (isWrong) return error
  return error instanceof Error && error.cause !== undefined ? wrongRedis(error.cause) : null
}

/** Defers the checks of a start while Redis is down: they run before the first connection is used. */
export class LateCheck {
  readonly #check: () => Promise<void>
  /** null if the checks have passed */
  #late: LateStart | null = null
  #isReported = false

  /** @param check the check that a start makes */
  constructor(check: () => Promise<void>) {
    this.#check = check
  }

  /** @param isUp whether Redis has come up in the meantime */
  async begin(late: LateStart, isUp: boolean): Promise<void> {
    this.#late = late
    // A fatal error is reported by `after`, and the process ends.
    if (isUp) await this.after(Promise.resolve()).catch(() => undefined)
  }

  /**
   * Waits until the journal is adopted, then runs the check if it is due.
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
