import type { SessionDay } from '../store/session-facts.js'

const DAY_MS = 86_400_000

/** The days that session facts have of a project, and whether a question has looked for them. */
export class UsableDays {
  readonly #days: readonly SessionDay[]
  #areAsked = false
  #areUsed = false

  /**
   * @param options `definition`: see `identifySessions`; `expiry`: epoch ms before which events or calls may have expired, and of which the days do not know: a session that
   *   has lost some ends a day later at most
   */
  constructor(days: readonly SessionDay[], { definition, expiry }: { definition: string; expiry: number | null }) {
    const first = expiry === null ? Number.NEGATIVE_INFINITY : Math.floor(expiry / DAY_MS) + 2
    this.#days = days.filter((day) => day.definition === definition && day.day >= first)
  }

  /** Whether a question has looked for them. */
  get areAsked(): boolean {
    return this.#areAsked
  }

  /** Whether it has found some. */
  get areUsed(): boolean {
    return this.#areUsed
  }

  find(): readonly SessionDay[] {
    this.#areAsked = true
    this.#areUsed = this.#days.length > 0
    return this.#days
  }
}
