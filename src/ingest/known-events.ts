import { isDeepStrictEqual } from 'node:util'
import type { Shards } from '../clickhouse/shards.js'
import { INSERT_ID_BUCKET_MS, idBucketAt, OLD_ID_BUCKETS } from '../journal/insert-id-memory.js'
import { createBatchLoader } from '../lib/batch-loader.js'
import { listNamedEvents, type NamedEvent } from '../model/identified-events.js'
import { type Position, positionAt } from '../model/position.js'
import type { EventIds, IdempotencyKey } from '../model/request-ids.js'
import type { Sender } from '../model/sender.js'
import type { Barrier } from '../reads/read-barrier.js'
import {
  findStoredDays,
  findStoredIds,
  type StoredAfter,
  type StoredBefore,
  type StoredDays,
  toPairKey,
} from '../store/stored-ids.js'

export interface KnownEventsParts {
  shards: Shards
  barrier: Pick<Barrier, 'requireProject'>
  /** the journals' memory */
  ids: {
    /** the indexes of the remembered ids, in any order */
    findKnown(sender: Sender, insertIds: Buffer): Promise<number[]>
    /** see the method of this name below */
    findFirst(key: IdempotencyKey): Promise<Position | null>
  }
  /** the time since which a project's events are kept, epoch ms; undefined: all are */
  keptSince(projectId: string): number | undefined
}

interface LookUp {
  stored: StoredBefore | StoredAfter
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
 * may contain events from years ago, and they remember the ids of deleted events, too.
 */
export class KnownEvents {
  readonly #parts: KnownEventsParts
  readonly #find = createBatchLoader((asked: LookUp[]) => this.#findAll(asked), { atOnce: QUERIES })
  /** by project and position: the days that have stored events; kept once no more events can be stored up to there */
  readonly #days = new Map<string, Promise<StoredDays>>()

  constructor(parts: KnownEventsParts) {
    this.#parts = parts
  }

  /**
   * The indexes of the events that were stored up to a position.
   * @param events is only called if the store may have any of them
   * @throws ApiError `unavailable` if the store does not catch up in time
   */
  async find(projectId: string, before: Position, events: () => readonly NamedEvent[]): Promise<Set<number>> {
    const days = await this.#findDays(projectId, before)
    if (days.areNone) return new Set()
    const some = events().filter((event) => days.mayHave(event))
    return some.length === 0 ? new Set() : await this.#find({ stored: { projectId, before }, events: some })
  }

  /**
   * The indexes of the events whose ids the journals remember although the store does not have them any more, because
   * they were deleted.
   * @param batch its body is JSON `{"events":[…]}`
   * @param storedBefore epoch ms; the batch has no events that were stored before
   * @throws ApiError `unavailable` if a lane is down or the store does not catch up in time
   */
  async findDeleted(batch: Sender & { body: Buffer }, ids: EventIds, storedBefore: number): Promise<number[]> {
    const remembered = new Set(await this.#parts.ids.findKnown(batch, ids.digests))
    if (remembered.size === 0) return []
    const { projectId, body } = batch
    const since = this.#parts.keptSince(projectId)
    // Expired events have gone for good.
    const isKept = ({ timestamp }: NamedEvent) => since === undefined || timestamp === null || timestamp >= since
    const events = listNamedEvents(body, ids).filter((event) => remembered.has(event.index) && isKept(event))
    if (events.length === 0) return []
    await this.#parts.barrier.requireProject(projectId)
    // Together with `find`, this leaves no gap. The journals' clocks may lag behind this one.
    const memoryMs = (idBucketAt(Date.now()) - OLD_ID_BUCKETS) * INSERT_ID_BUCKET_MS
    const after = positionAt(Math.min(memoryMs, storedBefore))
    // Few events are stored with another time, so the search of all times is mostly for those that were deleted.
    const near = await this.#find({ stored: { projectId, after }, events })
    const rest = events.filter(({ index }) => !near.has(index))
    if (rest.length === 0) return []
    const anywhere = await this.#find({ stored: { projectId, after, atAnyTime: true }, events: rest })
    return rest.map(({ index }) => index).filter((index) => !anywhere.has(index))
  }

  /** The first position of the entries that a request with this key appended; null if none is known. */
  async findFirst(key: IdempotencyKey): Promise<Position | null> {
    return await this.#parts.ids.findFirst(key)
  }

  /**
   * Most imports contain events from days without stored events: one query finds that out, and the rest costs nothing.
   */
  #findDays(projectId: string, before: Position): Promise<StoredDays> {
    const key = `${before}:${projectId}`
    const known = this.#days.get(key)
    if (known) return known
    const asking = this.#loadDays(projectId, before, () => this.#days.delete(key))
    this.#days.set(key, asking)
    asking.catch(() => this.#days.delete(key))
    const [oldest] = this.#days.keys()
    if (this.#days.size > MAX_KEPT && oldest !== undefined) this.#days.delete(oldest)
    return asking
  }

  /** @param onTemporary called if more days may get events later */
  async #loadDays(projectId: string, before: Position, onTemporary: () => void): Promise<StoredDays> {
    // Events that are accepted by now may not be stored yet.
    const stored = await this.#parts.barrier.requireProject(projectId)
    const days = await findStoredDays(this.#parts.shards, { projectId, before })
    if (stored < before) onTemporary()
    return days
  }

  /** Fetches the first ids, up to the number that fits one query. */
  async #findAll(asked: LookUp[]): Promise<Set<number>[]> {
    const [first] = asked
    if (!first) return []
    let count = 0
    const end = asked.findIndex((one, i) => {
      count += one.events.length
      return i > 0 && (!isDeepStrictEqual(one.stored, first.stored) || count > MAX_EVENTS)
    })
    const some = end === -1 ? asked : asked.slice(0, end)
    const all = some.flatMap(({ events }) => events)
    const stored = await findStoredIds(this.#parts.shards, first.stored, all)
    return some.map(({ events }) => {
      return new Set(events.filter((event) => stored.has(toPairKey(event))).map(({ index }) => index))
    })
  }
}
