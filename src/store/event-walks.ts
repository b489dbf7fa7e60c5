import type { Readable } from 'node:stream'
import { isTimeout } from '../clickhouse/errors.js'
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
import { PageReach } from './page-reach.js'
import { PageIndex, type PageStart } from './page-starts.js'

/** Which page of which events is wanted. */
export interface WantedPage {
  projectId: string
  filter: EventFilter
  order: Order
  limit: number
  /** the first id, by a cursor; else by the page's number, which is the first page's where absent */
  startAt: string | null
  page: number | undefined
  /** the greatest id that may be in it */
  upTo: string
  /** of the project's events, how often there were any */
  deletions: number
}

export interface ReadPage {
  /** in the format; rows of JSON have commas between them */
  rows: Readable
  /** the first id of the next page, null where there is none; undefined if it follows the rows of JSON */
  next: string | null | undefined
  /** the page may have fewer events than `limit`, so that `next` is not where the next page by its number begins */
  isShort: boolean
  /** there was a next page when the rows began: if none follows them, events of this one were deleted meanwhile */
  hasNext: boolean
}

/** Reads the pages of walks through the events of projects. */
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
   * A page, or where a filter finds too little in the time, what was found of it: fewer events than `limit`, even none,
   * and a `next` from which the search resumes. Not for a page that is asked for by its number, as those of the pages
   * after it would be others then.
   * @throws ApiError `unavailable` where such a page takes too long
   */
  async read(format: Format, wanted: WantedPage, signal: AbortSignal): Promise<ReadPage> {
    const { startAt, page: number = 1 } = wanted
    const canBeShort = isFiltered(wanted.filter) && (startAt !== null || wanted.page === undefined)
    const { projectId, order, upTo, limit } = wanted
    const page = { projectId, order, upTo, limit, ...wanted.filter }
    const limitMs = canBeShort ? this.#limits.directMs : undefined
    try {
      const start = startAt === null ? await this.#find(wanted, number, page, signal) : { startAt, offset: 0 }
      const found = { ...page, ...start }
      const before = await this.#reach.find(found, { signal })
      if (format === 'json') {
        const rows = await readEventPage(this.#shards, { ...found, before }, { signal, limitMs })
        return { rows, next: undefined, isShort: false, hasNext: before !== null }
      }
      let bounds = await findPageBounds(this.#shards, { ...found, before }, { signal, limitMs })
      // Events of the page were deleted since its reach was found.
      if (before && !bounds.next) bounds = await findPageBounds(this.#shards, found, { signal, limitMs })
      const rows = await readEventRows(this.#shards, format, page, bounds, { signal })
      return { rows, next: bounds.next, isShort: false, hasNext: bounds.next !== null }
    } catch (error) {
      if (!isTimeout(error)) throw error
      if (!canBeShort) throw isFiltered(wanted.filter) ? tooSlowByNumber() : error
      const from = startAt === null ? page : { ...page, startAt }
      const { ids, next } = await searchEvents(this.#shards, from, this.#limits, signal)
      const rows = await readEventsById(this.#shards, format, { projectId, order, ids }, { signal })
      return { rows, next, isShort: ids.length < limit, hasNext: next !== null }
    }
  }

  /**
   * To be told of each page that was read, so that the one after it is found at once by its number.
   * @param next null at the end, and after a short page
   */
  remember(wanted: WantedPage, next: string | null): void {
    const { projectId, order, upTo, limit, startAt, page = 1 } = wanted
    const start = startAt === null ? this.#starts.find(nameOf(wanted), page, limit) : { startAt, offset: 0 }
    if (!isFiltered(wanted.filter) && start.offset === 0) {
      this.#reach.note({ projectId, order, upTo, limit, ...start }, next)
    }
    if (startAt !== null) return
    if (order === 'desc' && page === 1) this.#starts.restart(nameOf(wanted))
    if (next !== null) this.#starts.remember(nameOf(wanted), page + 1, next)
  }

  /** Where a page begins; looked up first where it is far from any that is remembered. */
  async #find(
    wanted: WantedPage,
    number: number,
    page: Omit<EventPage, 'offset'>,
    signal: AbortSignal,
  ): Promise<PageStart> {
    const start = this.#starts.find(nameOf(wanted), number, page.limit)
    if (start.offset < FAR_ROWS) return start
    const startAt = await findPageStart(this.#shards, { ...page, ...start }, { signal })
    if (startAt === null) return start
    this.#starts.remember(nameOf(wanted), number, startAt)
    return { startAt, offset: 0 }
  }
}

function nameOf({ projectId, deletions, limit, filter, order }: WantedPage): string {
  return JSON.stringify([projectId, deletions, limit, filter, order])
}

function tooSlowByNumber(): ApiError {
  return new ApiError(
    'unavailable',
    'This filter finds too little for a page by its number. Ask without `page`, and follow `next` by `cursor`.',
  )
}
