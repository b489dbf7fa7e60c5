import type { Shards } from '../clickhouse/shards.js'
import { createBatchLoader } from '../lib/batch-loader.js'
import type { NamedEvent } from '../model/identified-events.js'
import { type Position, positionAt } from '../model/position.js'
import type { Barrier } from '../reads/read-barrier.js'
import { findStoredDays, findStoredIds, type StoredDays, toPairKey } from '../store/stored-ids.js'

export interface KnownEventsParts {
  shards: Shards
  barrier: Pick<Barrier, 'requireProject'>
}

interface LookUp {
  projectId: string
  before: Position
  events: readonly NamedEvent[]
}

/** Concurrent queries; further look-ups share the next one, which costs little more for many ids. */
const QUERIES = 2
/** Events in one query. */
const MAX_EVENTS = 10_000
/** How many results are remembered. */
const MAX_KEPT = 100

/**
 * Finds the events that the store has by their `insert_id`s: the journals remember ids for a week only, but an import
 * may contain events from years ago.
 */
export class KnownEvents {
  readonly #parts: KnownEventsParts
  readonly #find = createBatchLoader((asked: LookUp[]) => this.#findAll(asked), { atOnce: QUERIES })
  /** by project and position: the days that have stored events */
  readonly #days = new Map<string, Promise<StoredDays>>()

  constructor(parts: KnownEventsParts) {
    this.#parts = parts
  }

  /**
   * The indexes of the events that were stored before a time, epoch ms.
   * @param events is only called if the store may have any of them
   * @throws ApiError `unavailable` if the store does not catch up in time
   */
  async find(projectId: string, beforeMs: number, events: () => readonly NamedEvent[]): Promise<Set<number>> {
    const before = positionAt(beforeMs)
    const days = await this.#findDays(projectId, before)
    if (days.areNone) return new Set()
    const some = events().filter((event) => days.mayHave(event))
    return some.length === 0 ? new Set() : await this.#find({ projectId, before, events: some })
  }

  /**
   * Most imports contain events from days without stored events: one query finds that out, and the rest costs nothing.
   */
  #findDays(projectId: string, before: Position): Promise<StoredDays> {
    const key = `${before}:${projectId}`
    const known = this.#days.get(key)
    if (known) return known
    const asking = this.#loadDays(projectId, before)
    this.#days.set(key, asking)
    asking.catch(() => this.#days.delete(key))
    const [oldest] = this.#days.keys()
    if (this.#days.size > MAX_KEPT && oldest !== undefined) this.#days.delete(oldest)
    return asking
  }

  async #loadDays(projectId: string, before: Position): Promise<StoredDays> {
    // Events that are accepted by now may not be stored yet.
    await this.#parts.barrier.requireProject(projectId)
    return await findStoredDays(this.#parts.shards, { projectId, before })
  }

  /** Fetches the first ids, up to the number that fits one query. */
  async #findAll(asked: LookUp[]): Promise<Set<number>[]> {
    const [first] = asked
    if (!first) return []
    const { projectId, before } = first
    let count = 0
    const end = asked.findIndex((one, i) => {
      count += one.events.length
      return i > 0 && (one.projectId !== projectId || one.before !== before || count > MAX_EVENTS)
    })
    const some = end === -1 ? asked : asked.slice(0, end)
    const all = some.flatMap(({ events }) => events)
    const stored = await findStoredIds(this.#parts.shards, { projectId, before }, all)
    return some.map(({ events }) => {
      return new Set(events.filter((event) => stored.has(toPairKey(event))).map(({ index }) => index))
    })
  }
}
