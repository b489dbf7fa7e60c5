import type { Shards } from '../clickhouse/shards.js'
import type { EventName } from '../contract/responses.js'
import { lastIdAt } from '../model/event-id.js'
import type { ReadPoint } from '../reads/read-barrier.js'
import type { Backlog } from './backlog.js'
import {
  type EventRow,
  type IdRange,
  MAX_MONTHLY_NAMES,
  MAX_NAMES,
  type MonthRow,
  queryEventNames,
  queryMonthlyNames,
  readMonthParts,
  toMonth,
} from './names.js'
import { RefreshingCache } from './refreshing-cache.js'
import type { Questions } from './run.js'

/** In projects with more events than this, a list may be a little old; in smaller ones, each call makes a new one. */
export const LARGE = 100_000
export const LARGE_LIST_MS = 15_000
/**
 * Interval at which everything is counted again, ms, so that events with old ids, such as replayed ones, are included.
 */
export const RECOUNT_MS = 10 * 60_000
/** Maximum size of all counts, in characters. */
export const ROOM = 32 * 1024 * 1024
/** Size of an object without its strings, in characters. */
const OBJECT = 50

type Point = Pick<ReadPoint, 'stored' | 'deletions' | 'isAging'>

/** How many events of each name a project has, up to a position. */
export interface Counts extends Point {
  countedAt: number
  /** position up to which `months` are complete */
  countedTo: Point['stored']
  names: Map<string, EventName>
  total: number
  /** counts at `countedAt` by the month of the ids; null if there were too many names */
  months: ReadonlyMap<string, Month> | null
}

/** The events of a month. */
export interface Month {
  /** its parts before it was counted; see `readMonthParts` */
  parts: string
  rows: EventRow[]
}

export interface NameCountsOptions {
  shards: Shards
  questions: Pick<Questions, 'read'>
  backlog: Backlog
  /** monotonic clock, ms */
  clock(): number
}

/**
 * Counts the events of projects by name: all of them once, then only new ones. After a deletion, the changed months are
 * counted again, and calls wait for that, so that no later response includes deleted events.
 */
export class NameCounts {
  readonly #options: NameCountsOptions
  readonly #cache: RefreshingCache<Counts>

  constructor(options: NameCountsOptions) {
    this.#options = options
    this.#cache = new RefreshingCache<Counts>({ room: ROOM, weigh, backlog: options.backlog, isOutdated })
  }

  /** The counts at a point. @throws ApiError `overloaded`, `query_too_large` */
  async at(projectId: string, point: Point): Promise<Counts> {
    const { stored } = point
    const isUpToDate = (known: Counts) => this.#canGoOn(known, point) && known.stored >= stored
    return await this.#cache.get(projectId, {
      projectId,
      isCurrent: (known) =>
        (isUpToDate(known) && this.#measureAge(known) < RECOUNT_MS) ||
        (this.#isPartial(known) && known.deletions === point.deletions),
      suffices: isUpToDate,
      make: async (known) => {
        if (!known || !this.#canGoOn(known, point)) return await this.#countAll(projectId, point, known)
        const rows = await this.#countRange(projectId, { after: lastIdAt(known.stored), upTo: lastIdAt(stored) })
        const names = new Map(known.names)
        const added = addTo(names, rows)
        return { ...known, stored, names, total: known.total + added }
      },
      renew: (known) => this.#countAll(projectId, point, known),
    })
  }

  /** The last counts, which may include events that were deleted since. */
  last(projectId: string): Counts | undefined {
    return this.#cache.last(projectId)
  }

  #measureAge({ countedAt }: Counts): number {
    return this.#options.clock() - countedAt
  }

  /** Whether only new events have to be counted. */
  #canGoOn(known: Counts, { deletions }: Point): boolean {
    if (known.names.size > MAX_NAMES || known.deletions !== deletions) return false
    return known.total > LARGE || this.#measureAge(known) < RECOUNT_MS
  }

  /** Whether there were too many names to update the counts, so that recent counts are good enough. */
  #isPartial(known: Counts): boolean {
    return known.names.size > MAX_NAMES && this.#measureAge(known) < LARGE_LIST_MS
  }

  /** @param known earlier counts, whose unchanged months are reused */
  async #countAll(projectId: string, { stored, deletions, isAging }: Point, known?: Counts): Promise<Counts> {
    const countedAt = this.#options.clock()
    const upTo = lastIdAt(stored)
    // Events expire in months whose parts do not change.
    const reusable = (!isAging && known?.months) || new Map()
    const months = known?.months === null ? null : await this.#countMonths(projectId, upTo, reusable)
    const names = new Map<string, EventName>()
    const rows = months ? [...months.values()].flatMap((month) => month.rows) : null
    const total = addTo(names, rows ?? (await this.#countRange(projectId, { after: null, upTo })))
    return { stored, deletions, countedAt, countedTo: stored, names, total, months }
  }

  /** @returns null if there are too many names */
  async #countMonths(
    projectId: string,
    upTo: string,
    known: ReadonlyMap<string, Month>,
  ): Promise<Map<string, Month> | null> {
    const { shards, questions } = this.#options
    // Read before counting, so that changes during the count are noticed next time.
    const parts = await readMonthParts(shards)
    const last = toMonth(upTo)
    const months = new Map<string, Month>()
    for (const [month, text] of parts) {
      const before = known.get(month)
      if (month < last) months.set(month, before?.parts === text ? before : { parts: text, rows: [] })
    }
    const changed = [...months].filter(([month, now]) => known.get(month) !== now).map(([month]) => month)
    const rows = await questions.read(projectId, (context) => queryMonthlyNames(context, { upTo, months: changed }))
    if (rows.length >= MAX_MONTHLY_NAMES) return null
    for (const { month, ...row } of rows as MonthRow[]) {
      // The last month gets new events, so its parts change all the time.
      const counted = months.get(month) ?? { parts: '', rows: [] }
      counted.rows.push(row)
      months.set(month, counted)
    }
    return months
  }

  async #countRange(projectId: string, range: IdRange): Promise<EventRow[]> {
    return (await this.#options.questions.read(projectId, (context) => queryEventNames(context, range))) as EventRow[]
  }
}

/** Whether there was a deletion between two results. */
export function isOutdated({ deletions }: Pick<Point, 'deletions'>, by: Pick<Point, 'deletions'>): boolean {
  return deletions !== by.deletions
}

/** @returns the number of events */
function addTo(names: Map<string, EventName>, rows: readonly EventRow[]): number {
  let total = 0
  for (const { event, count, first, last } of rows) {
    const known = names.get(event)
    total += Number(count)
    names.set(event, {
      event,
      count: (known?.count ?? 0) + Number(count),
      first_seen: Math.min(known?.first_seen ?? first, first),
      last_seen: Math.max(known?.last_seen ?? last, last),
    })
  }
  return total
}

function weigh(key: string, { names, months }: Counts): number {
  const ofMonths = [...(months?.values() ?? [])].map(({ rows }) =>
    estimateSize(
      '',
      rows.map(({ event }) => event),
    ),
  )
  return ofMonths.reduce((sum, one) => sum + one, estimateSize(key, [...names.keys()]))
}

/** The size of a result with these strings, in characters. */
export function estimateSize(key: string, texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length + OBJECT, key.length + OBJECT)
}
