import { labelEvents, labelField, labelSeries } from '../../contract/labels.js'
import type { Interval, SeriesQuestion } from '../../contract/questions.js'
import { createDateFormat } from './intl.js'
import { type Draft, parseDraft } from './question.js'
import { addDays, countDays, findDays, findMonthEnd } from './range.js'

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
const WEEKDAY = createDateFormat({ ...UTC, weekday: 'short' })

/** The first and the last day of a range. */
type Days = NonNullable<ReturnType<typeof findDays>>

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
  const part = { first: begin, last: end }
  return `${formatDays(part)} (${countDays(part.first, part.last) + 1} of ${countDays(first, last) + 1} days)`
}

/**
 * Formats the buckets of a question. A week or month that its range only covers in part is labelled with the days that
 * count. When clocks go back, the UTC offset distinguishes the repeated hour.
 */
export function formatBuckets(ats: string[], period: Period): string[] {
  const days = findDays(period, period.timezone)
  const texts = ats.map((at) => formatBucket(at, period.interval, days))
  return texts.map((text, i) => {
    const isTwice = text === texts[i - 1] || text === texts[i + 1]
    return isTwice ? `${text} (UTC${ats[i]?.slice(-6)})` : text
  })
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

/** Formats the days that a question is about, such as `Oct 28 – Nov 26, 2026`. */
export function formatPeriod({ from, to, timezone }: Pick<Period, 'from' | 'to' | 'timezone'>): string {
  const days = findDays({ from, to }, timezone)
  return days ? formatDays(days) : `${from} – ${to}`
}

function formatDays({ first, last }: Days): string {
  const text = YEAR.formatRange(parseLocal(`${first}T00:00`), parseLocal(`${last}T00:00`))
  // Thin spaces look like none in some fonts.
  return text.replaceAll('\u2009', ' ')
}

/** Formats a date without a time, such as that of a cohort. */
export function formatDate(date: string): string {
  return YEAR.format(Date.parse(`${date}T00:00Z`))
}
