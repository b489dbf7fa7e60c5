import { findFirstDay, type SessionDay } from '../store/session-facts.js'

/** The days of a project that session facts cover; notes whether a question looked for them. */
export class UsableDays {
  readonly #days: readonly SessionDay[]
  #areAsked = false
  #areUsed = false

  /**
   * @param options `definition`: of the sessions that are asked about, see `identifySessions`; `expiry`: see `findFirstDay`
   */
  constructor(days: readonly SessionDay[], { definition, expiry }: { definition: string; expiry: number | null }) {
    const first = findFirstDay(expiry)
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
