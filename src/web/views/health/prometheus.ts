/** A sample of a Prometheus metric. */
export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$/s
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/gs
const ESCAPES: Record<string, string> = { n: '\n' }

/**
 * Parses Prometheus' text format and skips invalid lines.
 * https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
 */
export function parseMetrics(text: string): Sample[] {
  return text.split('\n').flatMap((line): Sample[] => {
    const [, name, labels = '', value = ''] = LINE.exec(line.trim()) ?? []
    if (name === undefined) return []
    return [{ name, labels: parseLabels(labels), value: parseValue(value) }]
  })
}

/** The sum over all processes, lanes and other labels; 0 without samples. */
export function sumSamples(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number {
  return selectValues(samples, name, labels).reduce((sum, value) => sum + value, 0)
}

/** The largest value; null without samples. */
export function findMax(samples: readonly Sample[], name: string): number | null {
  const values = selectValues(samples, name)
  return values.length > 0 ? Math.max(...values) : null
}

/** The smallest value; null without samples. */
export function findMin(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number | null {
  const values = selectValues(samples, name, labels)
  return values.length > 0 ? Math.min(...values) : null
}

/**
 * For a metric that all processes report about the same objects: the maximum per object, summed over objects.
 * @param place label of the object
 */
export function sumMaxima(samples: readonly Sample[], name: string, place: string): number {
  const maxima = new Map<string, number>()
  for (const { labels, value } of samples.filter((sample) => sample.name === name)) {
    const at = labels[place] ?? ''
    maxima.set(at, Math.max(maxima.get(at) ?? 0, value))
  }
  return [...maxima.values()].reduce((sum, value) => sum + value, 0)
}

/** The distinct values of a label. */
export function listLabelValues(samples: readonly Sample[], name: string, label: string): string[] {
  const values = samples.flatMap((sample) => (sample.name === name ? (sample.labels[label] ?? []) : []))
  return [...new Set(values)]
}

function selectValues(samples: readonly Sample[], name: string, requiredLabels: Record<string, string> = {}): number[] {
  const entries = Object.entries(requiredLabels)
  return samples.flatMap(({ name: ofSample, labels, value }) => {
    return ofSample === name && entries.every(([label, text]) => labels[label] === text) ? [value] : []
  })
}

function parseLabels(text: string): Record<string, string> {
  const labels = [...text.matchAll(LABEL)].map(([, name = '', value = '']) => {
    return [name, value.replaceAll(/\\(.)/gs, (_, escaped: string) => ESCAPES[escaped] ?? escaped)]
  })
  return Object.fromEntries(labels)
}

function parseValue(text: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY
  return text === '-Inf' ? Number.NEGATIVE_INFINITY : Number(text)
}
