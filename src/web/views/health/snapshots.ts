import { formatDuration } from '../../lib/format.js'
import { listLabelValues, type Sample, sumSamples } from './prometheus.js'

/** What the service measured at one time. */
export interface Snapshot {
  /** epoch ms */
  at: number
  samples: Sample[]
  /** why the service is not ready; null if it is */
  notReady: string | null
}

/** From nothing to do, by something to look at, to something that loses or refuses data if nobody acts. */
export type Level = 'good' | 'watch' | 'bad'

/** One part of the service, in words. */
export interface Check {
  title: string
  level: Level
  /** one sentence */
  verdict: string
  /** what to do about it; null if there is nothing */
  advice: string | null
  facts: [name: string, value: string][]
  /** what this part is */
  about: string
  /** a view that has more */
  link?: { text: string; to: string[] }
}

/** How far back it counts as lately. */
export const RECENT_MS = 5 * 60_000

/** Readings, the last of which is the state now. Counts are judged by how much they have risen since an earlier one. */
export interface History {
  now: Snapshot
  /** the reading before; null if there is none of the same processes */
  last: Snapshot | null
  /** the earliest of the last minutes; null if there is none of the same processes */
  first: Snapshot | null
}

/** In words how long ago the earliest reading is that counts as lately. */
export function describeRecent({ now, first }: History): string {
  return first ? `in the last ${formatDuration(now.at - first.at)}` : 'since this page was opened'
}

/** Whether no process was started or replaced in between, so that counts can be compared. */
export function isSameRun(now: Snapshot, before: Snapshot): boolean {
  const starts = ({ samples }: Snapshot) => sumSamples(samples, 'process_start_time_seconds')
  return now.at > before.at && starts(now) === starts(before)
}

export function computeIncrease(
  now: Snapshot,
  before: Snapshot,
  name: string,
  labels: Record<string, string> = {},
): number {
  return Math.max(0, sumSamples(now.samples, name, labels) - sumSamples(before.samples, name, labels))
}

/** The values of a label whose counts have risen. */
export function findIncreasedLabels(now: Snapshot, before: Snapshot, name: string, label: string): string[] {
  return listLabelValues(now.samples, name, label).filter(
    (value) => computeIncrease(now, before, name, { [label]: value }) > 0,
  )
}
