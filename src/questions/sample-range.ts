import { lastIdAt } from '../model/event-id.js'
import type { Counts } from './name-counts.js'
import { findLastIdBefore, getNextMonth, type IdRange } from './names.js'

/** The size of a sample of events. */
export interface Extent {
  /** events to sample of a frequent name */
  most: number
  /** events to sample of a rare name: each may be in a different granule, which is read completely */
  least: number
  /** approximate number of rows read for events of one name: reading properties takes most of the time of a list */
  rows: number
  /** rows to search for events of one name, in whole months */
  searched: number
}

/** For a list that a client waits for: takes up to 50 ms over 100 million events. */
export const FIRST: Extent = { most: 1_000, least: 10, rows: 12_500, searched: 5_000_000 }
/** For a list that is made in the background, or for a small project. */
export const WHOLE: Extent = { most: 20_000, least: 200, rows: 250_000, searched: Number.POSITIVE_INFINITY }

/** The number of events with a name, or of all events. */
export function countNamed({ names, total }: Counts, event: string | undefined): number {
  return event === undefined ? total : (names.get(event)?.count ?? 0)
}

/** The number of events of a name to sample, assuming that they are spread evenly over the project's events. */
export function computeSampleSize(counts: Counts, event: string | undefined, { most, least, rows }: Extent): number {
  const count = countNamed(counts, event)
  return Math.min(most, Math.max(least, Math.floor((rows * count) / Math.max(1, counts.total))))
}

/**
 * The range of ids, in whole months, that contains the newest events of a name. Other months are not searched, because
 * searching 20 million rows for a name takes longer than reading its events.
 */
export function findNewestRange(counts: Counts, event: string | undefined, upTo: string, extent: Extent): IdRange {
  const size = computeSampleSize(counts, event, extent)
  const newest = countNamed(counts, event) > size ? size : undefined
  if (!counts.months) return { after: null, upTo, event, newest: newest ?? size }
  const months = listMonths(counts, event)
  const since = countNamed(counts, event) - months.reduce((sum, { count }) => sum + count, 0)
  const first = findOldestMonth(months, size - since, extent)
  const last = months[0]
  const after = first === undefined ? lastIdAt(counts.countedTo) : findLastIdBefore(first)
  // Ids have equal length, so they compare as strings.
  const end = last === undefined || since > 0 ? upTo : findLastIdBefore(getNextMonth(last.month))
  return { after, upTo: end < upTo ? end : upTo, event, newest }
}

interface MonthCount {
  month: string
  /** events of the name, and all events */
  count: number
  total: number
}

/** The months with events of a name, the latest first. */
function listMonths({ months }: Counts, event: string | undefined): MonthCount[] {
  const sum = (rows: readonly { count: string }[]) => rows.reduce((total, { count }) => total + Number(count), 0)
  return [...(months ?? [])]
    .map(([month, { rows }]) => {
      const total = sum(rows)
      const count = event === undefined ? total : sum(rows.filter((row) => row.event === event))
      return { month, count, total }
    })
    .filter(({ count }) => count > 0)
    .sort((a, b) => (a.month < b.month ? 1 : -1))
}

/** The first month that is needed for enough events or enough searched rows; undefined if none is needed. */
function findOldestMonth(months: readonly MonthCount[], wanted: number, { searched }: Extent): string | undefined {
  let oldest: string | undefined
  let found = 0
  let looked = 0
  for (const { month, count, total } of months) {
    if (found >= wanted || looked >= searched) break
    oldest = month
    found += count
    looked += total
  }
  return oldest
}
