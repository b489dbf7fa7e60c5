import type { Histogram } from '../lib/histogram.js'

export type Labels = Record<string, string>

/** One line of a metric. */
interface Sample {
  /** suffix of the metric's name, such as `_bucket`; usually empty */
  suffix: string
  labels: Labels
  value: number
}

/** A metric that a process has read. It is plain data, so that it can be sent to another process. */
export interface Metric {
  name: string
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  samples: Sample[]
}

/** A value with its labels; null if the value is unknown, which leaves the line out. */
export type LabeledValue<Value> = [labels: Labels, value: Value | null]

export function counter(name: string, help: string, readings: LabeledValue<number>[] | number): Metric {
  return { name, help, type: 'counter', samples: toSamples(readings) }
}

export function gauge(name: string, help: string, readings: LabeledValue<number>[] | number | null): Metric {
  return { name, help, type: 'gauge', samples: toSamples(readings) }
}

export function histogram(name: string, help: string, readings: LabeledValue<Histogram>[] | Histogram): Metric {
  const all: LabeledValue<Histogram>[] = Array.isArray(readings) ? readings : [[{}, readings]]
  const samples = all.flatMap(([labels, value]) => (value ? formatHistogram(labels, value) : []))
  return { name, help, type: 'histogram', samples }
}

/** One reading for each value of a label. */
export function byLabel<Value>(label: string, values: Record<string, Value>): LabeledValue<Value>[] {
  return Object.entries(values).map(([name, value]) => [{ [label]: name }, value])
}

function toSamples(readings: LabeledValue<number>[] | number | null): Sample[] {
  const all: LabeledValue<number>[] = Array.isArray(readings) ? readings : [[{}, readings]]
  return all.flatMap(([labels, value]) => (value === null ? [] : [{ suffix: '', labels, value }]))
}

/** Buckets are cumulative, and the last one holds everything. */
function formatHistogram(labels: Labels, { bounds, counts, sum }: Histogram): Sample[] {
  let upTo = 0
  const buckets = counts.map((count, i) => {
    upTo += count
    return { suffix: '_bucket', labels: { ...labels, le: String(bounds[i] ?? '+Inf') }, value: upTo }
  })
  return [...buckets, { suffix: '_sum', labels, value: sum }, { suffix: '_count', labels, value: upTo }]
}

/** The readings of each part, labelled with its number if there are several. */
export function numbered<Part, Value>(
  label: 'lane' | 'shard',
  parts: readonly Part[],
  read: (part: Part) => LabeledValue<Value>[] | Value,
): LabeledValue<Value>[] {
  return parts.flatMap((part, number) => {
    const readings = read(part)
    const all: LabeledValue<Value>[] = Array.isArray(readings) ? readings : [[{}, readings]]
    if (parts.length === 1) return all
    return all.map(([labels, value]): LabeledValue<Value> => [{ ...labels, [label]: String(number) }, value])
  })
}
