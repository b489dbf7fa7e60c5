import { findFirstDay, type SessionDay } from '../store/session-facts.js'
import type { Query } from './statement.js'

/** Maximum number of changed sessions that a statement lists; with more, it finds them itself. */
const MAX_CHANGED = 2_000

/** The keys of changed sessions by the SELECT that found them; null: too many. */
export type FoundSessions = Map<string, readonly string[] | null>

/**
 * The days of a project that session facts cover, and the sessions of these days that have changed since. Notes whether
 * a question looked for them. Changed sessions are found by a statement before the question's own: ClickHouse plans both
 * in half the time of a single statement that finds them wherever it needs them, and usually there are none.
 */
export class UsableDays {
  readonly #days: readonly SessionDay[]
  readonly #found: FoundSessions
  readonly #max: number
  readonly #wanted = new Map<string, Query>()
  #areAsked = false
  #areUsed = false

  /**
   * @param options `definition`: identifies the sessions of the question, see `identifySessions`; `expiry`: see
   * `findFirstDay`; `found`: keys from statements of other questions, if nothing was stored since
   */
  constructor(
    days: readonly SessionDay[],
    {
      definition,
      expiry,
      found = new Map(),
      max = MAX_CHANGED,
    }: { definition: string; expiry: number | null; found?: FoundSessions; max?: number | undefined },
  ) {
    const first = findFirstDay(expiry)
    this.#days = days.filter((day) => day.definition === definition && day.day >= first)
    this.#found = found
    this.#max = max
  }

  /** Whether the question has looked for covered days. */
  get areAsked(): boolean {
    return this.#areAsked
  }

  /** Whether it has found any. */
  get areUsed(): boolean {
    return this.#areUsed
  }

  find(): readonly SessionDay[] {
    this.#areAsked = true
    this.#areUsed = this.#days.length > 0
    return this.#days
  }

  /** See `FactsBounds`. */
  findChanged(query: Query): readonly string[] | null {
    const key = JSON.stringify([query.sql, query.parameters])
    if (!this.#found.has(key)) this.#wanted.set(key, query)
    return this.#found.get(key) ?? null
  }

  /**
   * Finds the keys that `findChanged` did not know.
   * @returns whether any were unknown, so that the query has to be built again
   */
  async lookUp(read: (query: Query) => Promise<unknown[]>): Promise<boolean> {
    for (const [key, query] of this.#wanted) {
      const sql = `SELECT DISTINCT toString(key) AS name FROM ${query.sql} LIMIT ${this.#max + 1}`
      const names = (await read({ ...query, sql })).map((row) => (row as { name: string }).name)
      this.#found.set(key, names.length > this.#max ? null : names)
    }
    const hasFound = this.#wanted.size > 0
    this.#wanted.clear()
    return hasFound
  }
}
