import type { ReadOptions } from '../clickhouse/client.js'
import { orIfDenied } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { formatEventId, parseEventId } from '../model/event-id.js'
import { toMilliseconds } from '../model/position.js'
import { countEvents, type EventPage, findPageStart, isFiltered } from './event-pages.js'

/**
 * Pages are bounded if the store has more parts than this: opening a part takes ClickHouse 1.5 to 2.5 ms of CPU, and
 * finding a bound 3 to 4.
 */
const MANY_PARTS = 6
/** How long the number of parts is cached, ms. */
const PARTS_MEMORY_MS = 10_000
/** The first bound to try in an unknown project, as ms after the first event. */
const FIRST_MS = 60_000
/** Attempts, and the factor by which each widens the bound: in an unknown project, the last one covers 45 days. */
const TRIES = 5
const WIDENING = 16
/**
 * The estimate is multiplied by this, because events are spread unevenly and another attempt costs as much as two
 * parts.
 */
const MARGIN = 3
const MIN_MS = 1000
/** Projects in the cache, each with an id of 36 characters and a number. A full cache is cleared. */
const MAX_PROJECTS = 10_000

type ReachedPage = Omit<EventPage, 'before'>

/**
 * Finds a bound for the end of a page. Without one, ClickHouse reads the beginning of every part after the page's first
 * event before it notices that the page ends within the first few; a store of several years has a hundred.
 */
export class PageReach {
  readonly #shards: Shards
  readonly #manyParts: number
  /** by project: average ms between events on the page read last; infinite if that page had all events */
  readonly #spacing = new Map<string, number>()
  /** by project: time of its first event, ms; if that was deleted since, a lower bound */
  readonly #first = new Map<string, number>()
  readonly #parts = { count: 0, readAt: Number.NEGATIVE_INFINITY }

  /** @param manyParts up to this many parts, no page is bounded */
  constructor(shards: Shards, manyParts = MANY_PARTS) {
    this.#shards = shards
    this.#manyParts = manyParts
  }

  /**
   * @param isNeeded whether to look for a bound even if it saves no time
   * @returns an id beyond the page and the first event after it, in the page's order; null if none was found
   */
  async find(page: ReachedPage, reading: ReadOptions, isNeeded = false): Promise<string | null> {
    const known = this.#spacing.get(page.projectId)
    const isAll = known === Number.POSITIVE_INFINITY
    if (isFiltered(page) || (!isNeeded && (isAll || !(await this.#hasManyParts(reading))))) return null
    const spacing = isAll ? undefined : known
    const start = await this.#findStart(page, reading)
    if (start === null) return null
    const rows = page.offset + page.limit
    let ms = spacing === undefined ? FIRST_MS : Math.max(MIN_MS, Math.ceil(spacing * rows * MARGIN))
    for (let i = 0; i < TRIES; i++, ms *= WIDENING) {
      const before = computeBound(page, start, ms)
      if (before === null) return null
      const events = await countEvents(this.#shards, { ...page, before }, reading)
      if (events > rows) return before
      // The first event was deleted, so the next page looks for the new first one.
      if (events === 0 && start === this.#first.get(page.projectId)) this.#first.delete(page.projectId)
    }
    return null
  }

  /**
   * To be called for each page that was read from a known event or from the newest one on.
   * @param next the first id of the page after it
   */
  note(page: Pick<EventPage, 'projectId' | 'order' | 'upTo' | 'startAt' | 'limit'>, next: string | null): void {
    const { projectId, startAt, limit } = page
    const start = startAt ?? (page.order === 'desc' ? page.upTo : undefined)
    if (next === null) {
      if (startAt === undefined) remember(this.#spacing, projectId, Number.POSITIVE_INFINITY)
      return
    }
    const from = start === undefined ? this.#first.get(projectId) : parseIdTime(start)
    const to = parseIdTime(next)
    if (typeof from === 'number' && to !== null) remember(this.#spacing, projectId, Math.abs(to - from) / limit)
    else if (this.#spacing.get(projectId) === Number.POSITIVE_INFINITY) this.#spacing.delete(projectId)
  }

  async #findStart(page: ReachedPage, reading: ReadOptions): Promise<number | null> {
    const known = page.startAt ?? (page.order === 'desc' ? page.upTo : null)
    if (known) return parseIdTime(known)
    // Finding the first event takes as long as reading the page without a bound.
    const first = this.#first.get(page.projectId)
    if (first !== undefined) return first
    const found = parseIdTime(await findPageStart(this.#shards, { ...page, offset: 0 }, reading))
    if (found !== null) remember(this.#first, page.projectId, found)
    return found
  }

  async #hasManyParts(reading: ReadOptions): Promise<boolean> {
    if (performance.now() - this.#parts.readAt > PARTS_MEMORY_MS) {
      // Set this before the query, so that only one of many readers sends it, and the others use the last result.
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

/** Counts the parts of the first shard, because others have about as many; 0 if the user may not read system.parts. */
async function countParts({ first }: Shards, reading: ReadOptions): Promise<number> {
  const count = first.rows<{ parts: string }>(
    `SELECT count() AS parts FROM system.parts WHERE active AND database = currentDatabase() AND table = 'events'`,
    {},
    {},
    reading,
  )
  const [row] = await orIfDenied(count, [])
  return Number(row?.parts ?? 0)
}

/** The least id at the time `ms` after (or in descending order before) `startMs`; null if that is beyond all events. */
function computeBound({ order, upTo }: ReachedPage, startMs: number, ms: number): string | null {
  const wantedMs = order === 'desc' ? startMs - ms : startMs + ms
  if (!(wantedMs > 0 && wantedMs < (parseIdTime(upTo) ?? 0))) return null
  return formatEventId({ position: BigInt(wantedMs) << 16n, index: 0, journalId: 0 })
}

function parseIdTime(id: string | null | undefined): number | null {
  const place = id ? parseEventId(id) : null
  return place && toMilliseconds(place.position)
}
