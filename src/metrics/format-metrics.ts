import type { Labels, Metric } from './metric.js'

/** https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format */
export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Metrics in the text format of Prometheus. */
export function formatMetrics(metrics: Metric[]): string {
  const lines = metrics.flatMap(({ name, help, type, samples }) => [
    `# HELP ${name} ${help.replace(/\\/g, '\\\\').replace(/\n/g, '\\n')}`,
    `# TYPE ${name} ${type}`,
    ...samples.map(({ suffix, labels, value }) => `${name}${suffix}${formatLabels(labels)} ${formatNumber(value)}`),
  ])
  return `${lines.join('\n')}\n`
}

function formatLabels(labels: Labels): string {
  const list = Object.entries(labels).map(([name, value]) => `${name}="${escapeValue(value)}"`)
  return list.length > 0 ? `{${list.join(',')}}` : ''
}

function escapeValue(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/\n/g, '\\n').replace(/"/g, '\\"')
}

function formatNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value)
}
