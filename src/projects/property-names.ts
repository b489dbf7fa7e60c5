import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import { toDay } from '../lib/day.js'
import { MAX_PROPERTY_NAMES, readPropertyNames } from '../store/project-usage.js'

/** An event is still counted if it is stored up to this long after it was accepted, ms. */
const LATE_MS = 60_000

interface Seen {
  /** UTC, such as `2026-11-26` */
  day: string
  /** names that the project had before that day */
  known: Set<string>
  /** new names of that day */
  found: Set<string>
  /** acceptance time of the last events that were read, epoch ms */
  readTo: number
}

/**
 * Counts the names of properties that are new on a day. An event is stored as the client's own text, so finding its
 * names requires parsing it. That is done once per event, and only in projects with a quota on names.
 *
 * Not promised: if a check finds more events than it may read, names in the rest are missed.
 */
export class PropertyNames {
  readonly #shards: Shards
  readonly #closing: AbortSignal
  /** by project */
  readonly #seen = new Map<string, Seen>()

  constructor(shards: Shards, closing: AbortSignal) {
    this.#shards = shards
    this.#closing = closing
  }

  /**
   * Call it again for a project only once the last call has ended.
   * @param now epoch ms
   * @returns null if the project has so many names that new ones cannot be told from old ones
   * @throws StoreUnreachableError, StoreError; the next call continues from what was known
   */
  async countNew(projectId: string, now: number): Promise<number | null> {
    const day = toDay(now)
    const midnight = Date.parse(day)
    const read = (from: number, to: number) => readPropertyNames(this.#shards, projectId, { from, to }, this.#closing)
    const seen = this.#seen.get(projectId) ?? { day: '', known: new Set(), found: new Set(), readTo: 0 }
    if (seen.day !== day) {
      const past = await read(Math.max(0, seen.readTo - LATE_MS), midnight)
      addNames(seen.known, [...seen.found, ...past])
      Object.assign(seen, { day, found: new Set(), readTo: midnight })
      this.#seen.set(projectId, seen)
    }
    const names = await read(Math.max(midnight, seen.readTo - LATE_MS), midnight + DAY_MS)
    addNames(
      seen.found,
      names.filter((name) => !seen.known.has(name)),
    )
    seen.readTo = now
    return seen.known.size < MAX_PROPERTY_NAMES ? seen.found.size : null
  }
}

function addNames(names: Set<string>, more: readonly string[]): void {
  for (const name of more) if (names.size < MAX_PROPERTY_NAMES) names.add(name)
}
