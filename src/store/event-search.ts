import { isTimeout } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { type EventPage, findEventIds, findPageStart } from './event-pages.js'

/** Limits of a filtered search. */
export interface SearchLimits {
  /** time limit of the plain query of a page, ms; after that, its events are searched in steps */
  directMs: number
  /** duration of a search, ms; after that, the page has the events found, and a cursor for the rest */
  searchMs: number
  /** events of the project in the first step; the size of later steps depends on how long they take */
  stepRows: number
}

export const SEARCH_LIMITS: SearchLimits = { directMs: 5_000, searchMs: 10_000, stepRows: 1_000_000 }

/** Maximum number of events on a page that is searched for, because each is fetched by its id. */
const MAX_FOUND = 1000
/** A step gets at most this fraction of a search's time, so that a smaller one can follow. */
const STEPS = 4
const GROWTH = 4
const SHRINKING = 8
/** ClickHouse reads at least this many rows (index_granularity), so a smaller range costs no less. */
const MIN_STEP_ROWS = 8192
const MAX_STEP_ROWS = 2 ** 30

export interface FoundEvents {
  ids: string[]
  /** the event of the project, matching or not, where the search for the next page begins; null at the end */
  next: string | null
}

/**
 * Searches one range of the project's events after another for the events of a page, so that its progress is known when
 * the time is up. Finding the end of a range reads only ids, which is fast even if the filter is expensive.
 * @throws StoreUnreachableError, StoreError if not even the smallest range at the start can be searched in time; if a
 *   later range fails, returns what was found before
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
      const found = await findEventIds(
        shards,
        { ...from, before: end, offset: 0, limit: most + 1 - ids.length },
        reading,
      )
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
      // The range was too large: try a part of it. Once the time is up, make one last attempt, with the smallest part,
      // and only if there is no progress to return.
      rows = performance.now() < deadline ? Math.max(Math.floor(rows / SHRINKING), leastRows) : leastRows
      continue
    }
    if (performance.now() - began < stepMs / GROWTH) rows = Math.min(rows * GROWTH, MAX_STEP_ROWS)
  }
  return { ids, next: startAt ?? null }
}
