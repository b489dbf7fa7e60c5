import type { FieldName, Interval, SeriesDefinition, SeriesLine, SeriesQuestion } from '../../contract/questions.js'
import { labelBreakdown, labelField } from './fields.js'
import { createDateFormat } from './intl.js'

/** Labels the events of a line, step or node. */
export function labelEvents(event: string | string[]): string {
  if (event === '*') return 'Any event'
  return typeof event === 'string' ? event : event.join(' or ')
}

/** Labels a series, such as `purchased (sum of price)`. */
export function labelSeries({ event, metric, property = '', p = 95, where }: SeriesDefinition): string {
  const field = labelField(property as FieldName)
  const metrics: Record<SeriesDefinition['metric'], string> = {
    events: '',
    users: 'users',
    events_per_user: 'per user',
    sum: `sum of ${field}`,
    avg: `average ${field}`,
    min: `least ${field}`,
    max: `greatest ${field}`,
    median: `median ${field}`,
    percentile: `${p} % percentile of ${field}`,
  }
  const notes = [metrics[metric], where ? 'filtered' : ''].filter((note) => note !== '')
  return notes.length > 0 ? `${labelEvents(event)} (${notes.join(', ')})` : labelEvents(event)
}

/** Unique names for the lines of an answer. */
export function labelLines(lines: SeriesLine[], { series }: SeriesQuestion): string[] {
  const seen = new Map<string, number>()
  return lines.map((line) => {
    const definition = series[line.series]
    const name = definition ? labelSeries(definition) : String(line.series)
    const values = labelBreakdown(line.breakdown)
    const text = values === '' ? name : series.length === 1 ? values : `${name}: ${values}`
    const count = (seen.get(text) ?? 0) + 1
    seen.set(text, count)
    return count > 1 ? `${text} #${count}` : text
  })
}

const UTC = { timeZone: 'UTC' } as const
const YEAR = createDateFormat({ ...UTC, dateStyle: 'medium' })
const MONTH = createDateFormat({ ...UTC, month: 'short', year: 'numeric' })
const DAY = createDateFormat({ ...UTC, day: 'numeric', month: 'short' })
const HOUR = createDateFormat({ ...UTC, hour: 'numeric', minute: '2-digit' })
const WEEKDAY = createDateFormat({ ...UTC, weekday: 'short' })

/** Formats the bucket that starts at a local time, such as `Sat, May 2, 2026`. @param at with its UTC offset */
export function formatBucket(at: string, interval: Interval): string {
  const local = Date.parse(`${at.slice(0, 16)}Z`)
  switch (interval) {
    case 'month':
      return MONTH.format(local)
    case 'week':
      return `Week of ${YEAR.format(local)}`
    case 'hour':
      return `${YEAR.format(local)}, ${HOUR.format(local)}`
    default:
      return `${WEEKDAY.format(local)}, ${YEAR.format(local)}`
  }
}

/** Formats consecutive buckets. When clocks go back, the UTC offset distinguishes the repeated hour. */
export function formatBuckets(ats: string[], interval: Interval): string[] {
  const texts = ats.map((at) => formatBucket(at, interval))
  return texts.map((text, i) => {
    const isTwice = text === texts[i - 1] || text === texts[i + 1]
    return isTwice ? `${text} (UTC${ats[i]?.slice(-6)})` : text
  })
}

/** A short form of `formatBucket` for the axis. */
export function formatAxisLabel(at: string, interval: Interval): string {
  const local = Date.parse(`${at.slice(0, 16)}Z`)
  if (interval === 'month') return MONTH.format(local)
  const isMidnight = at.slice(11, 16) === '00:00'
  return interval === 'hour' && !isMidnight ? HOUR.format(local) : DAY.format(local)
}

/** Formats a date without a time, such as that of a cohort. */
export function formatDate(date: string): string {
  return YEAR.format(Date.parse(`${date}T00:00Z`))
}
