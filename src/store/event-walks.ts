import type { Readable } from 'node:stream'
import type { ReadOptions } from '../clickhouse/client.js'
import { findUnreadablePart, isTimeout } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { ApiError } from '../contract/errors.js'
import type { Format } from '../contract/formats.js'
import type { Order } from '../model/cursor.js'
import {
  type EventFilter,
  type EventPage,
  FAR_ROWS,
  findPageBounds,
  findPageStart,
  isFiltered,
  readEventPage,
  readEventRows,
  readEventsById,
} from './event-pages.js'
import { SEARCH_LIMITS, type SearchLimits, searchEvents } from './event-search.js'
import { PageIndex, type PageStart } from './page-index.js'
import { PageReach } from './page-reach.js'

/** A requested page. */
export interface PageRequest {
  projectId: string
  filter: EventFilter
  order: Order
  limit: number
  /** the first id, from a cursor; null if the page is requested by number */
  startAt: string | null
  /** number from 1; default 1 */
  page: number | undefined
  /** the greatest id that may be in it */
  upTo: string
  /** see ReadPoint */
  deletions: string
}

export interface ReadPage {
  /** in the requested format; JSON objects are separated by commas */
  rows: Readable
  /** the first id of the next page, null if there is none; undefined if it follows the rows in the stream (JSON) */
  next: string | null | undefined
  /** whether the page may have fewer events than `limit`, so that the next page by number does not begin at `next` */
  isShort: boolean
  /** whether there was a next page before the rows were read; if none follows them, events were deleted in between */
  hasNext: boolean
}

/** Reads pages of the events of projects, and remembers where they begin for walks from page to page. */
export class EventWalks {
  readonly #shards: Shards
  readonly #limits: SearchLimits
  readonly #starts = new PageIndex()
  readonly #reach: PageReach

  constructor(shards: Shards, limits: SearchLimits = SEARCH_LIMITS, reach = new PageReach(shards)) {
    this.#shards = shards
    this.#limits = limits
    this.#reach = reach
  }

  /**
   * Reads a page. If a filter finds too little in time, the page has fewer events than `limit`, perhaps none, and a
   * `next` from which the search resumes. That is impossible for a page requested by number, because it would change
   * the pages after it.
   * @throws ApiError `unavailable` if a filtered page by number takes too long
   */
  async read(format: Format, wanted: PageRequest, signal: AbortSignal): Promise<ReadPage> {
    const { startAt, page: number = 1 } = wanted
    const canBeShort = isFiltered(wanted.filter) && (startAt !== null || wanted.page === undefined)
    const { projectId, order, upTo, limit } = wanted
    const page = { projectId, order, upTo, limit, ...wanted.filter }
    const limitMs = canBeShort ? this.#limits.directMs : undefined
    try {
      const start = startAt === null ? await this.#find(wanted, number, page, signal) : { startAt, offset: 0 }
      const found = { ...page, ...start }
      const before = await this.#reach.find(found, { signal })
      return await this.#readRows(format, { ...found, before }, { signal, limitMs }).catch(async (error) => {
        // Perhaps no event of the page is in the damaged part.
        const nearer = findUnreadablePart(error) && !before ? await this.#reach.find(found, { signal }, true) : null
        if (nearer === null) throw error
        return await this.#readRows(format, { ...found, before: nearer }, { signal, limitMs })
      })
    } catch (error) {
      if (!isTimeout(error)) throw error
      if (!canBeShort) throw isFiltered(wanted.filter) ? tooSlowByNumber() : error
      const from = startAt === null ? page : { ...page, startAt }
      const { ids, next } = await searchEvents(this.#shards, from, this.#limits, signal)
      const rows = await readEventsById(this.#shards, format, { projectId, order, ids }, { signal })
      return { rows, next, isShort: ids.length < limit, hasNext: next !== null }
    }
  }

  async #readRows(
    format: Format,
    { before = null, ...found }: EventPage,
    { signal, limitMs }: Pick<ReadOptions, 'signal' | 'limitMs'>,
  ): Promise<ReadPage> {
    if (format === 'json') {
      const rows = await readEventPage(this.#shards, { ...found, before }, { signal, limitMs })
      return { rows, next: undefined, isShort: false, hasNext: before !== null }
    }
    let bounds = await findPageBounds(this.#shards, { ...found, before }, { signal, limitMs })
    // Events of the page were deleted after its end was found.
    if (before && !bounds.next) bounds = await findPageBounds(this.#shards, found, { signal, limitMs })
    const rows = await readEventRows(this.#shards, format, found, bounds, { signal })
    return { rows, next: bounds.next, isShort: false, hasNext: bounds.next !== null }
  }

  /**
   * To be called for each page that was read, so that the start of the next page by number is known without a query.
   * @param next null at the end, and after a short page
   */
  remember(wanted: PageRequest, next: string | null): void {
    const { projectId, order, upTo, limit, startAt, page = 1 } = wanted
    const start = startAt === null ? this.#starts.find(toWalkKey(wanted), page, limit) : { startAt, offset: 0 }
    if (!isFiltered(wanted.filter) && start.offset === 0) {
      this.#reach.note({ projectId, order, upTo, limit, ...start }, next)
    }
    if (startAt !== null) return
    if (order === 'desc' && page === 1) this.#starts.restart(toWalkKey(wanted))
    if (next !== null) this.#starts.remember(toWalkKey(wanted), page + 1, next)
  }

  /** Where a page begins. If it is far from all remembered pages, its start is looked up first. */
  async #find(
    wanted: PageRequest,
    number: number,
    page: Omit<EventPage, 'offset'>,
    signal: AbortSignal,
  ): Promise<PageStart> {
    const start = this.#starts.find(toWalkKey(wanted), number, page.limit)
    if (start.offset < FAR_ROWS) return start
    const startAt = await findPageStart(this.#shards, { ...page, ...start }, { signal })
    if (startAt === null) return start
    this.#starts.remember(toWalkKey(wanted), number, startAt)
    return { startAt, offset: 0 }
  }
}

function toWalkKey({ projectId, deletions, limit, filter, order }: PageRequest): string {
  return JSON.stringify([projectId, deletions, limit, filter, order])
}

function tooSlowByNumber(): ApiError {
  return new ApiError(
    'unavailable',
    'This filter matches too few events for a page by number. Leave out `page`, and pass each `next` as `cursor`.',
  )
}
