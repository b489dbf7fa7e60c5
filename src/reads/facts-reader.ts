import { setTimeout as wait } from 'node:timers/promises'
import type { Shards } from '../clickhouse/shards.js'
import type { Journal } from '../journal/journal.js'
import { askForColumn } from '../store/event-changes.js'
import { type FactsPoint, isAtPoint, readFactsPoint } from '../store/fact-points.js'
import { MAX_VALUE_COLUMNS, mayHaveColumn, nameValueColumn, readValueColumns } from '../store/fact-values.js'

export type { FactsPoint } from '../store/fact-points.js'

/** How long a question waits until facts have followed a change of its project, ms. */
const CHANGE_LIMIT_MS = 1_000
const POLL_MS = 10
/** How long the names of columns are remembered, ms. */
const COLUMNS_MS = 10_000
/** After this many slow questions that had to read it from texts, a property is given a column. */
const ENOUGH_QUESTIONS = 3
/** Properties whose questions are counted. */
const MAX_COUNTED = 1_000

/**
 * Says what questions may read of the facts, which follow `events` in the background: the facts of a project up to a
 * point, and the events after it. A change of stored events closes the facts of its project until they have followed it.
 */
export class FactsReader {
  readonly #shards: Shards
  readonly #journals: readonly Pick<Journal, 'wakeWriter'>[]
  #columns: { names: ReadonlySet<string>; readAt: number } = { names: new Set(), readAt: Number.NEGATIVE_INFINITY }
  /** by column that there is not: slow questions that would have read it */
  readonly #missed = new Map<string, number>()

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

  /** The names of the columns that facts have for values of properties. */
  async readColumns(): Promise<ReadonlySet<string>> {
    if (performance.now() - this.#columns.readAt > COLUMNS_MS) {
      this.#columns = { names: await readValueColumns(this.#shards.first), readAt: performance.now() }
    }
    return this.#columns.names
  }

  /** Forgets the columns, because one that a question has read is gone. */
  forgetColumns(): void {
    this.#columns.readAt = Number.NEGATIVE_INFINITY
  }

  /** Counts a slow question that has read these properties from texts; those of many questions are given columns. */
  async noteSlow(paths: readonly string[][]): Promise<void> {
    for (const path of paths.filter(mayHaveColumn)) {
      const name = nameValueColumn(path)
      const count = (this.#missed.get(name) ?? 0) + 1
      if (this.#missed.size > MAX_COUNTED) this.#missed.clear()
      this.#missed.set(name, count)
      // Others are asked again when there may be room.
      if (count % ENOUGH_QUESTIONS === 0 && this.#columns.names.size < MAX_VALUE_COLUMNS) {
        await askForColumn(this.#shards.first, path)
      }
    }
  }
}
