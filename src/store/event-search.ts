import { isTimeout } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { type EventPage, findEventIds, findPageStart } from './event-pages.js'

/** Limits of a filtered search. */
export interface SearchLimits {
  /** ms that a page may take to begin before its events are searched for step by step */
  directMs: number
  /** ms of a search; after that, the page has what was found, and a cursor for the rest */
  searchMs: number
  /** events of the project that the first step looks through; later ones as many as take a fair part of the time */
  stepRows: number
}

export const SEARCH_LIMITS: SearchLimits = { directMs: 5_000, searchMs: 10_000, stepRows: 1_000_000 }

/** Events of one page at most: each is fetched by its id. */
const MAX_FOUND = 1000
/** A step takes at most this part of the time of a search, so that a smaller one can follow. */
const STEPS = 4
const GROWTH = 4
const SHRINKING = 8
/** What ClickHouse reads at least (index_granularity): a smaller range costs as much. */
const MIN_STEP_ROWS = 8192
const MAX_STEP_ROWS = 2 ** 30

export interface FoundEvents {
  ids: string[]
  /** where the search for the next page begins, an event of the project that the filter need not pick; null at the end */
  next: string | null
}

/**
 * Looks for the events of a page in one range of the project's events after the other, so that it is known how far it
 * came when the time is up. Where a range ends is found among ids alone, which takes little time, however dear the
 * filter is.
 * @throws StoreUnreachableError, StoreError where not even the smallest range at the start can be looked through in the
 *   time; later on, what was found before it is returned
 */
export async function searchEvents(
  shards: Shards,
  page: Omit<EventPage, 'offset'>,
  { searchMs, stepRows }: SearchLimits,
  signal: AbortSignal,
): Promise<FoundEvents> {
  const deadline = performance.now() + searchMs
  const stepMs = searchMs / STEPS
  const most = Math.min(page.limit, MAX_FOUND)
  const ids: string[] = []
  const leastRows = Math.min(stepRows, MIN_STEP_ROWS)
  let { startAt } = page
  let rows = stepRows
  while (startAt === page.startAt || performance.now() < deadline) {
    const began = performance.now()
    const from = { ...page, ...(startAt !== undefined && { startAt }) }
    const reading = { signal, limitMs: stepMs }
    try {
      const { projectId, upTo, order = 'asc' } = page
      const range = { projectId, upTo, order, ...(startAt !== undefined && { startAt }), offset: rows }
      const end = await findPageStart(shards, range, reading)
      const found = await findEventIds(shards, { ...from, before: end, limit: most + 1 - ids.length }, reading)
      ids.push(...found)
      if (ids.length > most) return { ids: ids.slice(0, most), next: ids[most] ?? null }
      if (end === null) return { ids, next: null }
      startAt = end
    } catch (error) {
      if (!isTimeout(error)) throw error
      if (rows === leastRows) {
        if (startAt === page.startAt) throw error
        break
      }
      // Nothing was found out about this range; a part of it may be looked through. Once the time is up, only one more
      // attempt is made, with the smallest part, and only where there is no progress to return.
      rows = performance.now() < deadline ? Math.max(Math.floor(rows / SHRINKING), leastRows) : leastRows
      continue
    }
    if (performance.now() - began < stepMs / GROWTH) rows = Math.min(rows * GROWTH, MAX_STEP_ROWS)
  }
  return { ids, next: startAt ?? null }
}
