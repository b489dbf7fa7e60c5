import type { RetentionQuestion } from '../../contract/questions.js'
import { createIsoDateFormat } from './intl.js'
import type { Display, Draft, Preset } from './question.js'

/** A time range as the service takes it; `to` is exclusive. */
export interface Range {
  from: string | number
  to: string | number
}

const DAY_MS = 86_400_000
const DATE = /^\d{4}-\d{2}-\d{2}$/

const DAYS: Record<Exclude<Preset, '12m'>, number> = { today: 1, '7d': 7, '30d': 30, '90d': 90 }

/** The date in a time zone, such as `2026-05-01`. @param now epoch ms */
export function formatDateIn(timezone: string, now: number): string {
  try {
    return createIsoDateFormat(timezone).format(now)
  } catch {
    return new Date(now).toISOString().slice(0, 10)
  }
}

/** The date some days later, or earlier if negative. */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00Z`) + days * DAY_MS).toISOString().slice(0, 10)
}

/** The same day of the month some months later or earlier; the last day if the month is shorter. */
function addMonths(date: string, months: number): string {
  const [year = 0, month = 0, day = 0] = date.split('-').map(Number)
  const last = new Date(Date.UTC(year, month + months, 0)).getUTCDate()
  return new Date(Date.UTC(year, month - 1 + months, Math.min(day, last))).toISOString().slice(0, 10)
}

/** Resolves a relative range to dates; today is included. */
function resolvePreset(preset: Preset, timezone: string, now: number): Range {
  const to = addDays(formatDateIn(timezone, now), 1)
  return { from: preset === '12m' ? addMonths(to, -12) : addDays(to, -DAYS[preset]), to }
}

/** The range of a question, or else of the display. @param now epoch ms */
export function resolveRange(draft: Draft, display: Display, now: number): Range {
  const usual = resolvePreset(display.range ?? '30d', draft.timezone, now)
  return { from: draft.from ?? usual.from, to: draft.to ?? usual.to }
}

/** The preceding range of the same length; null if there is none. */
export function findRangeBefore({ from, to }: Range, preset?: Preset): Range | null {
  if (preset === '12m' && isDate(from)) return { from: addMonths(from, -12), to: from }
  if (isDate(from) && isDate(to)) {
    const days = Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS)
    return days > 0 ? { from: addDays(from, -days), to: from } : null
  }
  const [begin, end] = [new Date(from).getTime(), new Date(to).getTime()]
  if (Number.isNaN(begin) || !(end > begin)) return null
  return { from: 2 * begin - end, to: from }
}

/** Whether it is a valid date, unlike 2026-13-01. */
export function isDate(value: string | number): value is string {
  return typeof value === 'string' && DATE.test(value) && !Number.isNaN(Date.parse(value))
}

/** Whether an interval of a cohort has begun. @param cohort start date; @param now epoch ms */
export function hasBegun(
  { unit, timezone }: RetentionQuestion,
  cohort: string,
  interval: number,
  now: number,
): boolean {
  const days = unit === 'week' ? 7 : 1
  const begin = unit === 'month' ? addMonths(cohort, interval) : addDays(cohort, interval * days)
  return begin <= formatDateIn(timezone, now)
}
