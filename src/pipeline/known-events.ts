import type { Shards } from '../clickhouse/shards.js'
import { batchLoader } from '../lib/batch-loader.js'
import type { NamedEvent } from '../model/identified-events.js'
import { type Position, positionAt } from '../model/position.js'
import { findStoredIds, hasStoredIds, pairOf } from '../store/stored-ids.js'
import type { Barrier } from './level-barrier.js'

export interface KnownEventsParts {
  shards: Shards
  barrier: Pick<Barrier, 'waitForAll'>
}

interface Asked {
  projectId: string
  before: Position
  events: readonly NamedEvent[]
}

/** Queries at a time; what is asked meanwhile shares the next one, which costs little more for many ids. */
const QUERIES = 2
/** Events in one query. */
const MAX_EVENTS = 10_000
/** Answers that are remembered. */
const MAX_KEPT = 100

/**
 * Tells which events the store has, by their `insert_id`s: the journals remember these for a week, and an import may bring
 * what came years ago.
 */
export class KnownEvents {
  readonly #parts: KnownEventsParts
  readonly #find = batchLoader((asked: Asked[]) => this.#findAll(asked), { atOnce: QUERIES })
  /** by project and position: whether there is anything to find */
  readonly #any = new Map<string, Promise<boolean>>()

  constructor(parts: KnownEventsParts) {
    this.#parts = parts
  }

  /**
   * The indexes of the events that were stored before a time, epoch ms.
   * @param events is called only if the store may have any of them
   * @throws ApiError `unavailable` if the store is behind
   */
  async find(projectId: string, beforeMs: number, events: () => readonly NamedEvent[]): Promise<Set<number>> {
    const before = positionAt(beforeMs)
    if (!(await this.#hasAny(projectId, before))) return new Set()
    return await this.#find({ projectId, before, events: events() })
  }

  /** The first import of most projects finds nothing: that is asked once, and then costs nothing. */
  #hasAny(projectId: string, before: Position): Promise<boolean> {
    const key = `${before}:${projectId}`
    const known = this.#any.get(key)
    if (known) return known
    const asking = this.#askForAny(projectId, before)
    this.#any.set(key, asking)
    asking.catch(() => this.#any.delete(key))
    const [oldest] = this.#any.keys()
    if (this.#any.size > MAX_KEPT && oldest !== undefined) this.#any.delete(oldest)
    return asking
  }

  async #askForAny(projectId: string, before: Position): Promise<boolean> {
    // What was accepted by now may still be on its way to the store.
    await this.#parts.barrier.waitForAll()
    return await hasStoredIds(this.#parts.shards, { projectId, before })
  }

  /** Answers the first of these that one query can have. */
  async #findAll(asked: Asked[]): Promise<Set<number>[]> {
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
      return new Set(events.filter((event) => stored.has(pairOf(event))).map(({ index }) => index))
    })
  }
}
