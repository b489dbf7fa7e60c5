import type { Reading } from '../clickhouse/client.js'
import { isStoreError } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { formatEventId, parseEventId } from '../model/event-id.js'
import { millisecondsOf } from '../model/position.js'
import { countEvents, type EventPage, findPageStart, isFiltered } from './event-pages.js'

/** ClickHouse takes 1.5 to 2.5 ms for each part that a page opens, and 3 to 4 to find where the page may end at the latest. */
const MANY_PARTS = 6
const PARTS_MEMORY_MS = 10_000
/** What is looked at first where nothing is known of a project, ms. */
const FIRST_MS = 60_000
/** How often, and by which factor, more is looked at: the last time 45 days of a project of which nothing is known. */
const TRIES = 5
const WIDENING = 16
/** Events are not evenly spread, and a second try costs as much as opening two parts. */
const MARGIN = 3
const MIN_MS = 1000
/** Of 36 characters and a number each. */
const MAX_PROJECTS = 10_000

type ReachedPage = Omit<EventPage, 'before'>

/**
 * Says how far a page reaches at most. ClickHouse reads the beginning of every part behind the first event of a page before it
 * knows that the page ends within the first few, and a store of years has a hundred parts.
 */
export class PageReach {
  readonly #shards: Shards
  readonly #manyParts: number
  /** ms between two events of a project, on the page of it that was read last; infinite if that had all its events */
  readonly #spacing = new Map<string, number>()
  /** of a project's first event, ms; there may be later ones only, as it was deleted since */
  readonly #first = new Map<string, number>()
  readonly #parts = { count: 0, readAt: Number.NEGATIVE_INFINITY }

  /** @param manyParts up to so many parts, no page is bounded */
  constructor(shards: Shards, manyParts = MANY_PARTS) {
    this.#shards = shards
    this.#manyParts = manyParts
  }

  /** @returns an id before which, in the page's order, there are more events than the page has; null if none is known */
  async find(page: ReachedPage, reading: Reading): Promise<string | null> {
    const spacing = this.#spacing.get(page.projectId)
    if (isFiltered(page) || spacing === Number.POSITIVE_INFINITY || !(await this.#hasManyParts(reading))) return null
    const start = await this.#startOf(page, reading)
    if (start === null) return null
    const rows = page.offset + page.limit
    let ms = spacing === undefined ? FIRST_MS : Math.max(MIN_MS, Math.ceil(spacing * rows * MARGIN))
    for (let i = 0; i < TRIES; i++, ms *= WIDENING) {
      const before = idBefore(page, start, ms)
      if (before === null) return null
      if ((await countEvents(this.#shards, { ...page, before }, reading)) > rows) return before
    }
    return null
  }

  /**
   * To be told of each page that was read from an event on, or from the newest on.
   * @param next the first id of the page after it
   */
  note(page: Pick<EventPage, 'projectId' | 'order' | 'upTo' | 'startAt' | 'limit'>, next: string | null): void {
    const { projectId, startAt, limit } = page
    const start = startAt ?? (page.order === 'desc' ? page.upTo : undefined)
    if (next === null) {
      if (startAt === undefined) remember(this.#spacing, projectId, Number.POSITIVE_INFINITY)
      return
    }
    const from = start === undefined ? this.#first.get(projectId) : millisecondsOfId(start)
    const to = millisecondsOfId(next)
    if (typeof from === 'number' && to !== null) remember(this.#spacing, projectId, Math.abs(to - from) / limit)
    else if (this.#spacing.get(projectId) === Number.POSITIVE_INFINITY) this.#spacing.delete(projectId)
  }

  async #startOf(page: ReachedPage, reading: Reading): Promise<number | null> {
    const known = page.startAt ?? (page.order === 'desc' ? page.upTo : null)
    if (known) return millisecondsOfId(known)
    // To find it takes as long as the page itself would without a bound.
    const first = this.#first.get(page.projectId)
    if (first !== undefined) return first
    const found = millisecondsOfId(await findPageStart(this.#shards, { ...page, offset: 0 }, reading))
    if (found !== null) remember(this.#first, page.projectId, found)
    return found
  }

  async #hasManyParts(reading: Reading): Promise<boolean> {
    if (performance.now() - this.#parts.readAt > PARTS_MEMORY_MS) {
      // At once, so that of many readers one asks, and the others use the last answer.
      this.#parts.readAt = performance.now()
      this.#parts.count = await countParts(this.#shards, reading)
    }
    return this.#parts.count > this.#manyParts
  }
}

function remember(ofProjects: Map<string, number>, projectId: string, value: number): void {
  if (ofProjects.size >= MAX_PROJECTS && !ofProjects.has(projectId)) ofProjects.clear()
  ofProjects.set(projectId, value)
}

/** Of one shard, as others are like it; 0 where the user of the connection may not see them. */
async function countParts({ first }: Shards, reading: Reading): Promise<number> {
  try {
    const [row] = await first.rows<{ parts: string }>(
      `SELECT count() AS parts FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events'`,
      {},
      {},
      reading,
    )
    return Number(row?.parts)
  } catch (error) {
    if (isStoreError(error, 'ACCESS_DENIED')) return 0
    throw error
  }
}

/** The least id of a moment so far from another, in the page's order; null where that is behind all events. */
function idBefore({ order, upTo }: ReachedPage, startMs: number, ms: number): string | null {
  const wantedMs = order === 'desc' ? startMs - ms : startMs + ms
  if (!(wantedMs > 0 && wantedMs < (millisecondsOfId(upTo) ?? 0))) return null
  return formatEventId({ position: BigInt(wantedMs) << 16n, index: 0, journalId: 0 })
}

function millisecondsOfId(id: string | null | undefined): number | null {
  const place = id ? parseEventId(id) : null
  return place && millisecondsOf(place.position)
}
