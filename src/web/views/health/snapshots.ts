import { durationText } from '../../lib/format.js'
import { labelValues, type Sample, sumOf } from './prometheus.js'

/** What the service measured at one time. */
export interface Reading {
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
export const LATELY_MS = 5 * 60_000

/** Readings, the last of which is the state now. Counts are judged by how much they have risen since an earlier one. */
export interface Times {
  now: Reading
  /** the reading before; null if there is none of the same processes */
  last: Reading | null
  /** the earliest of the last minutes; null if there is none of the same processes */
  first: Reading | null
}

/** In words how long ago the earliest reading is that counts as lately. */
export function latelyText({ now, first }: Times): string {
  return first ? `in the last ${durationText(now.at - first.at)}` : 'since this page was opened'
}

/** Whether no process was started or replaced in between, so that counts can be compared. */
export function isSameRun(now: Reading, before: Reading): boolean {
  const starts = ({ samples }: Reading) => sumOf(samples, 'process_start_time_seconds')
  return now.at > before.at && starts(now) === starts(before)
}

export function risen(now: Reading, before: Reading, name: string, labels: Record<string, string> = {}): number {
  return Math.max(0, sumOf(now.samples, name, labels) - sumOf(before.samples, name, labels))
}

/** The values of a label whose counts have risen. */
export function risenLabels(now: Reading, before: Reading, name: string, label: string): string[] {
  return labelValues(now.samples, name, label).filter((value) => risen(now, before, name, { [label]: value }) > 0)
}
