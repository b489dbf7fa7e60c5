import { labelEvents, labelField, labelSeries } from '../../contract/labels.js'
import type { Interval, SeriesQuestion } from '../../contract/questions.js'
import { createDateFormat } from './intl.js'
import { type Draft, parseDraft } from './question.js'
import { addDays, countDays, type Days, findDays, findMonthEnd } from './range.js'

/** The longest name that can be saved. */
const MAX_NAME = 255

/** Proposes a name, such as `purchased (sum of price) by country`; empty if the page cannot edit the question. */
export function proposeName(question: unknown): string {
  const draft = parseDraft(question)
  if (!draft) return ''
  const by = 'breakdown' in draft ? draft.breakdown.map(labelField).join(' and ') : ''
  return `${labelByKind(draft)}${by && ` by ${by}`}`.slice(0, MAX_NAME)
}

function labelByKind(draft: Draft): string {
  switch (draft.kind) {
    case 'series':
      return draft.series.map(labelSeries).join(', ')
    case 'funnel':
      return draft.steps.map(({ event }) => labelEvents(event)).join(' → ')
    case 'retention':
      return `Retention after ${labelEvents(draft.start.event)}`
    case 'paths':
      return draft.start
        ? `Paths after ${labelEvents(draft.start.event)}`
        : `Paths to ${labelEvents(draft.end?.event ?? '')}`
  }
}

const UTC = { timeZone: 'UTC' } as const
const YEAR = createDateFormat({ ...UTC, dateStyle: 'medium' })
const MONTH = createDateFormat({ ...UTC, month: 'short', year: 'numeric' })
const DAY = createDateFormat({ ...UTC, day: 'numeric', month: 'short' })
const HOUR = createDateFormat({ ...UTC, hour: 'numeric', minute: '2-digit' })
const SECOND = createDateFormat({ ...UTC, timeStyle: 'medium' })
const MOMENT = createDateFormat({ ...UTC, dateStyle: 'medium', timeStyle: 'short' })
const WEEKDAY = createDateFormat({ ...UTC, weekday: 'short' })

/** Everything that the label of a bucket depends on, apart from its start. */
type Period = Pick<SeriesQuestion, 'from' | 'to' | 'interval' | 'timezone'>

/** Formats the bucket that starts at a local time, such as `Sat, May 2, 2026`. @param at with its UTC offset */
function formatBucket(at: string, interval: Interval, days: Days | null): string {
  const local = parseLocal(at)
  switch (interval) {
    case 'month':
      return formatPart(at, days, findMonthEnd(at.slice(0, 10))) ?? MONTH.format(local)
    case 'week':
      return formatPart(at, days, addDays(at.slice(0, 10), 6)) ?? `Week of ${YEAR.format(local)}`
    case 'hour':
      return `${YEAR.format(local)}, ${HOUR.format(local)}`
    default:
      return `${WEEKDAY.format(local)}, ${YEAR.format(local)}`
  }
}

/** Formats the days of a week or month that a range covers; null if these are all. @param last day of the bucket */
function formatPart(at: string, days: Days | null, last: string): string | null {
  const first = at.slice(0, 10)
  if (!days || (days.first <= first && last <= days.last)) return null
  const [, begin = first] = [first, days.first].toSorted()
  const [end = last] = [last, days.last].toSorted()
  return `${formatDays(begin, end)} (${countDays(begin, end) + 1} of ${countDays(first, last) + 1} days)`
}

/**
 * Formats the buckets of a question. A week or month that its range only covers in part is labelled with the days that
 * count, and a bucket in which the range begins or ends with that time. When clocks go back, the UTC offset
 * distinguishes the repeated hour.
 */
export function formatBuckets(ats: string[], period: Period): string[] {
  const days = findDays(period, period.timezone)
  const texts = ats.map((at) => formatBucket(at, period.interval, days))
  return texts.map((text, i) => {
    const isTwice = text === texts[i - 1] || text === texts[i + 1]
    const name = isTwice ? `${text} (UTC${ats[i]?.slice(-6)})` : text
    const hasPart = (time: string) => period.interval !== 'hour' || !time.endsWith(':00')
    const begin = i === 0 && days && hasPart(days.begin) ? days.begin : ''
    const end = i === texts.length - 1 && days && hasPart(days.end) ? days.end : ''
    return name + formatTimes(begin, end)
  })
}

/** Formats the times of day of a range. @param begin empty for the beginning of a day; @param end empty for its end */
function formatTimes(begin: string, end: string): string {
  return (begin && `, from ${formatTimeOfDay(begin)}`) + (end && `, until ${formatTimeOfDay(end)}`)
}

function formatTimeOfDay(time: string): string {
  const hasSeconds = time.length > 5
  return (hasSeconds ? SECOND : HOUR).format(Date.parse(`1970-01-01T${time}Z`))
}

function parseLocal(at: string): number {
  return Date.parse(`${at.slice(0, 16)}Z`)
}

/** A short form of `formatBuckets` for the axis. */
export function formatAxisLabels(ats: string[], period: Period): string[] {
  const { interval } = period
  const first = findDays(period, period.timezone)?.first ?? ''
  return ats.map((at) => {
    if (interval === 'month') return MONTH.format(parseLocal(at))
    const isMidnight = at.slice(11, 16) === '00:00'
    if (interval === 'hour' && !isMidnight) return HOUR.format(parseLocal(at))
    // The first week may begin before the range.
    return DAY.format(parseLocal(at.slice(0, 10) < first ? `${first}T00:00` : at))
  })
}

/** Formats what a question is about, such as `Oct 28 – Nov 26, 2026` or `Nov 26, 2026, until 2:30 PM`. */
export function formatPeriod({ from, to, timezone }: Pick<Period, 'from' | 'to' | 'timezone'>): string {
  const days = findDays({ from, to }, timezone)
  if (!days) return `${from} – ${to}`
  const { first, last, begin, end } = days
  if (begin && end) return formatRange(MOMENT, `${first}T${begin}`, `${last}T${end}`)
  return formatDays(first, last) + formatTimes(begin, end)
}

function formatDays(first: string, last: string): string {
  return formatRange(YEAR, `${first}T00:00`, `${last}T00:00`)
}

function formatRange(format: typeof YEAR, from: string, to: string): string {
  // Thin spaces look like none in some fonts.
  return format.formatRange(parseLocal(from), parseLocal(to)).replace(/[\u2009\u202f]/g, ' ')
}

/** Formats a date without a time, such as that of a cohort. */
export function formatDate(date: string): string {
  return YEAR.format(Date.parse(`${date}T00:00Z`))
}
