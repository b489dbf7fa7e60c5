import type { Metric } from './metric.js'

/** The metrics of one process, by the name of the process. */
export type ProcessMetrics = [process: string, metrics: Metric[]]

/**
 * Joins the metrics of several processes. Each sample gets the label `process`; a metric keeps one
 * heading.
 */
export function mergeMetrics(processes: ProcessMetrics[]): Metric[] {
  const merged = new Map<string, Metric>()
  for (const [process, metrics] of processes) {
    for (const metric of metrics) {
      const samples = metric.samples.map((sample) => ({ ...sample, labels: { ...sample.labels, process } }))
      const known = merged.get(metric.name)
      if (known) known.samples.push(...samples)
      else merged.set(metric.name, { ...metric, samples })
    }
  }
  return [...merged.values()]
}
