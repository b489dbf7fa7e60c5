import { lastIdAt } from '../model/event-id.js'
import type { Counts } from './name-counts.js'
import { type IdRange, lastIdBefore, monthAfter } from './names.js'

/** How many events to look at. */
export interface Extent {
  /** of a frequent event */
  most: number
  /** of a rare one, each of which may be in a granule of its own, which is read as a whole */
  least: number
  /** rows that are read for a sample of events of one name, about: their properties take most of the time that a list takes */
  rows: number
  /** rows in which events of one name are looked for until one is found, by whole months */
  searched: number
}

/** For a list that somebody waits for: within 50 ms of 100 million events. */
export const FIRST: Extent = { most: 1_000, least: 10, rows: 12_500, searched: 5_000_000 }
/** For one that is made behind the calls, or of a small project. */
export const WHOLE: Extent = { most: 20_000, least: 200, rows: 250_000, searched: Number.POSITIVE_INFINITY }

/** How many events there are of a name, or of all names. */
export function countOf({ names, total }: Counts, event: string | undefined): number {
  return event === undefined ? total : (names.get(event)?.count ?? 0)
}

/** How many of a name's events to look at, which are spread over all of a project's. */
export function sampleSize(counts: Counts, event: string | undefined, { most, least, rows }: Extent): number {
  const count = countOf(counts, event)
  return Math.min(most, Math.max(least, Math.floor((rows * count) / Math.max(1, counts.total))))
}

/**
 * The range of ids, by whole months, that has the newest events of a name. What the months between have is not read: to look
 * for a name in 20 million rows takes longer than to read its events.
 */
export function newestRange(counts: Counts, event: string | undefined, upTo: string, extent: Extent): IdRange {
  const size = sampleSize(counts, event, extent)
  const newest = countOf(counts, event) > size ? size : undefined
  if (!counts.months) return { after: null, upTo, event, newest: newest ?? size }
  const months = monthsOf(counts, event)
  const since = countOf(counts, event) - months.reduce((sum, { count }) => sum + count, 0)
  const first = oldestOf(months, size - since, extent)
  const last = months[0]
  const after = first === undefined ? lastIdAt(counts.countedTo) : lastIdBefore(first)
  // Ids are texts of one length.
  const end = last === undefined || since > 0 ? upTo : lastIdBefore(monthAfter(last.month))
  return { after, upTo: end < upTo ? end : upTo, event, newest }
}

interface MonthCount {
  month: string
  /** events of the name, and all events */
  count: number
  total: number
}

/** The months that have events of a name, the last first. */
function monthsOf({ months }: Counts, event: string | undefined): MonthCount[] {
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

/** The month from which on there are so many events, or enough is searched; undefined if none is needed. */
function oldestOf(months: readonly MonthCount[], wanted: number, { searched }: Extent): string | undefined {
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
