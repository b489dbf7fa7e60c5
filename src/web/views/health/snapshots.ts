import { formatDuration } from '../../lib/format.js'
import { listLabelValues, type Sample, sumSamples } from './prometheus.js'

/** The metrics of the service at one time. */
export interface Snapshot {
  /** epoch ms */
  at: number
  samples: Sample[]
  /** why the service is not ready; null if it is */
  notReady: string | null
}

/** Nothing to do; look into it; act now, or data will be lost or refused. */
export type Level = 'good' | 'watch' | 'bad'

/** The result of checking one part of the service. */
export interface Check {
  title: string
  level: Level
  /** one sentence */
  verdict: string
  /** what to do; null if nothing */
  advice: string | null
  facts: [name: string, value: string][]
  /** explains this part */
  about: string
  /** a view with more details */
  link?: { text: string; to: string[] }
}

/** The period that counts as recent. */
export const RECENT_MS = 5 * 60_000

/** The current snapshot and earlier ones to compare counters with. */
export interface History {
  now: Snapshot
  /** the previous snapshot; null if the processes have changed since */
  last: Snapshot | null
  /** the earliest recent snapshot; null if the processes have changed since */
  first: Snapshot | null
}

/** Describes the period since the earliest recent snapshot. */
export function describeRecent({ now, first }: History): string {
  return first ? `in the last ${formatDuration(now.at - first.at)}` : 'since this page was opened'
}

/** Whether the same processes were running, so that counters are comparable. */
export function isSameRun(now: Snapshot, before: Snapshot): boolean {
  const starts = ({ samples }: Snapshot) => sumSamples(samples, 'process_start_time_seconds')
  return now.at > before.at && starts(now) === starts(before)
}

/** @param before null if there is nothing to compare with: nothing has increased, as far as that is known */
export function computeIncrease(
  now: Snapshot,
  before: Snapshot | null,
  name: string,
  labels: Record<string, string> = {},
): number {
  return before === null
    ? 0
    : Math.max(0, sumSamples(now.samples, name, labels) - sumSamples(before.samples, name, labels))
}

/** The values of a label whose counters have increased. */
export function findIncreasedLabels(now: Snapshot, before: Snapshot | null, name: string, label: string): string[] {
  return listLabelValues(now.samples, name, label).filter(
    (value) => computeIncrease(now, before, name, { [label]: value }) > 0,
  )
}
