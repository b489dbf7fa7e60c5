import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../clickhouse/shards.js'
import type { Journal } from '../journal/journal.js'
import { type FactsPoint, isAtPoint, readFactsPoint } from '../store/fact-points.js'

export type { FactsPoint } from '../store/fact-points.js'

/** How long a question waits until facts have followed a change of its project, ms. */
const CHANGE_LIMIT_MS = 1_000
const POLL_MS = 10

/**
 * Says what questions may read of the facts, which follow `events` in the background: the facts of a project up to a
 * point, and the events after it. A change of stored events closes the facts of its project until they have followed it.
 */
export class FactsReader {
  readonly #shards: Shards
  readonly #journals: readonly Pick<Journal, 'wakeWriter'>[]

  /** @param journals wake the process that copies */
  constructor(shards: Shards, journals: readonly Pick<Journal, 'wakeWriter'>[]) {
    this.#shards = shards
    this.#journals = journals
  }

  /** The point to read a project's facts at; null if only `events` may be read. Waits for a change, up to a second. */
  async point(projectId: string): Promise<FactsPoint | null> {
    // The point of each shard would be another one.
    if (this.#shards.areSeveral) return null
    const deadline = performance.now() + CHANGE_LIMIT_MS
    for (;;) {
      const { point, isOpen } = await readFactsPoint(this.#shards.first, projectId)
      if (!isOpen || !point) return point
      if (performance.now() > deadline) return null
      for (const journal of this.#journals) journal.wakeWriter()
      await wait(POLL_MS)
    }
  }

  /**
   * Whether what was read since the point was taken is of that point.
   * @param isBounded whether rows of greater steps were left out
   */
  async stillHolds(projectId: string, point: FactsPoint, isBounded: boolean): Promise<boolean> {
    return await isAtPoint(this.#shards.first, projectId, point, isBounded)
  }
}
