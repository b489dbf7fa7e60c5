import { DAY_MS } from '../../contract/durations.js'
import type { Interval, RangeQuestion, RetentionQuestion } from '../../contract/questions.js'
import { createDateFormat } from './intl.js'

/** A time range as the service takes it; `to` is exclusive. */
export interface Range {
  from: string | number
  to: string | number
}

/** The bounds that a range has. */
export function pickBounds({ from, to }: { from?: Range['from']; to?: Range['to'] }): Partial<Range> {
  return { ...(from !== undefined && { from }), ...(to !== undefined && { to }) }
}

/** Ranges relative to today, in the order of the list. */
export const PRESETS = [
  'today',
  'yesterday',
  'this_week',
  'last_week',
  'this_month',
  'last_month',
  '7d',
  '30d',
  '90d',
  'this_year',
  '12m',
  'all',
] as const
export type Preset = (typeof PRESETS)[number]

export const USUAL_PRESET: Preset = '30d'

/** The settings that determine the dates of a preset. */
type Calendar = Pick<RangeQuestion, 'timezone' | 'week_start'>

/** A range as people choose it: fixed, or relative to today. */
export interface RangeChoice extends Calendar, Partial<Range> {
  /** without `from` and `to`; default: the last 30 days */
  range?: Preset
}

/** The times that the dates of a preset depend on, in addition to the calendar. */
export interface Moment {
  /** epoch ms */
  now: number
  /** epoch ms of the project's first event; null if there is none, or while it is unknown */
  first: number | null
}

const DATE = /^\d{4}-\d{2}-\d{2}$/
const TIME = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}(?::?\d{2}){0,2})?$/i
const MINUTE_MS = 60_000
/** Questions cannot start earlier. */
const EPOCH = '1970-01-01'

/** The date in a time zone, such as `2026-05-01`. @param now epoch ms */
export function formatDateIn(timezone: string, now: number): string {
  return readClock(timezone, now).date
}

/** A local date and time. */
interface LocalTime {
  date: string
  /** such as `14:30` or `14:30:05.123`; empty at midnight */
  time: string
}

const TWO_DIGITS = '2-digit'
const CLOCK = {
  hourCycle: 'h23',
  year: 'numeric',
  month: TWO_DIGITS,
  day: TWO_DIGITS,
  hour: TWO_DIGITS,
  minute: TWO_DIGITS,
  second: TWO_DIGITS,
  fractionalSecondDigits: 3,
} as const
const CLOCK_PARTS = ['year', 'month', 'day', 'hour', 'minute', 'second', 'fractionalSecond'] as const

function readClock(timezone: string, instant: number): LocalTime {
  try {
    const format = createDateFormat({ ...CLOCK, timeZone: timezone })
    const parts = new Map(format.formatToParts(instant).map(({ type, value }) => [type, value]))
    const [year = '', month, day, hour, minute, second, ms] = CLOCK_PARTS.map((type) => parts.get(type))
    const time = shortenTime(`${hour}:${minute}:${second}.${ms}`)
    return { date: `${year.padStart(4, '0')}-${month}-${day}`, time }
  } catch {
    const text = new Date(instant).toISOString()
    return { date: text.slice(0, 10), time: shortenTime(text.slice(11, 23)) }
  }
}

/** A time of day without seconds that are 0; empty at midnight. */
function shortenTime(time: string): string {
  const short = time.replace(/\.0+$/, '').replace(/^(\d\d:\d\d):00$/, '$1')
  return short === '00:00' ? '' : short
}

/** The local time of a bound of a range; null if it is invalid. */
function toLocalTime(bound: string | number, timezone: string): LocalTime | null {
  const local = readLocalTime(bound)
  if (local) return local
  const instant = Math.floor(new Date(bound).getTime())
  return Number.isNaN(instant) ? null : readClock(timezone, instant)
}

/** A date, or a time without an offset; null for any other bound. */
function readLocalTime(bound: string | number): LocalTime | null {
  if (isDate(bound)) return { date: bound, time: '' }
  const [, date = '', time = '', offset] = TIME.exec(String(bound)) ?? []
  return isDate(date) && offset === undefined ? { date, time: shortenTime(time) } : null
}

/**
 * The first instant of a bound of a range, in epoch ms; null if the bound is invalid. Like the service, it takes a time
 * that clocks repeat as the first one, and one that they skip as if they had not been changed yet.
 */
export function findInstant(bound: string | number, timezone: string): number | null {
  const local = readLocalTime(bound)
  if (!local) {
    const instant = Math.floor(new Date(bound).getTime())
    return Number.isNaN(instant) ? null : instant
  }
  const wanted = readUtc(local)
  const read = (instant: number) => readUtc(readClock(timezone, instant))
  // No zone is more than a day from UTC.
  let [low, high] = [wanted - DAY_MS, wanted + DAY_MS]
  const [byOld, byNew] = [wanted - (read(low) - low), wanted - (read(high) - high)]
  if (read(byOld) === wanted || (read(byNew) !== wanted && local.time !== '')) return byOld
  if (read(byNew) === wanted) return byNew
  // The day begins later.
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (read(middle) < wanted) low = middle
    else high = middle
  }
  return high
}

function readUtc({ date, time }: LocalTime): number {
  return Date.parse(`${date}T${time || '00:00'}Z`)
}

/** The date some days later, or earlier if negative. */
export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00Z`) + days * DAY_MS).toISOString().slice(0, 10)
}

/** The days from one date to another. */
export function countDays(from: string, to: string): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS)
}

/** The months from one date to another, regardless of the days. */
export function countMonths(from: string, to: string): number {
  const [begin, end] = [from, to].map((date) => Number(date.slice(0, 4)) * 12 + Number(date.slice(5, 7)))
  return (end ?? 0) - (begin ?? 0)
}

/** The same day of the month some months later or earlier; the last day if the month is shorter. */
function addMonths(date: string, months: number): string {
  const [year = 0, month = 0, day = 0] = date.split('-').map(Number)
  const last = new Date(Date.UTC(year, month + months, 0)).getUTCDate()
  return new Date(Date.UTC(year, month - 1 + months, Math.min(day, last))).toISOString().slice(0, 10)
}

/** The last day of the month of a date. */
export function findMonthEnd(date: string): string {
  return addDays(addMonths(`${date.slice(0, 8)}01`, 1), -1)
}

/** Like `addMonths`, but the last day of a month stays one: 28 February becomes 31 March. */
function addMonthsToEnd(date: string, months: number): string {
  const moved = addMonths(date, months)
  return date === findMonthEnd(date) ? findMonthEnd(moved) : moved
}

/** The first day of the week of a date. */
function findWeekStart(date: string, weekStart: Calendar['week_start']): string {
  const weekday = new Date(`${date}T00:00Z`).getUTCDay()
  return addDays(date, -(weekStart === 'monday' ? (weekday + 6) % 7 : weekday))
}

/** Resolves a relative range to dates; ranges that are not over include today. */
function resolvePreset(preset: Preset, { timezone, week_start }: Calendar, { now, first }: Moment): Range {
  const today = formatDateIn(timezone, now)
  const to = addDays(today, 1)
  const week = findWeekStart(today, week_start)
  const month = `${today.slice(0, 8)}01`
  switch (preset) {
    case 'today':
      return { from: today, to }
    case 'yesterday':
      return { from: addDays(today, -1), to: today }
    case 'this_week':
      return { from: week, to }
    case 'last_week':
      return { from: addDays(week, -7), to: week }
    case 'this_month':
      return { from: month, to }
    case 'last_month':
      return { from: addMonths(month, -1), to: month }
    case '7d':
      return { from: addDays(to, -7), to }
    case '30d':
      return { from: addDays(to, -30), to }
    case '90d':
      return { from: addDays(to, -90), to }
    case 'this_year':
      return { from: `${today.slice(0, 5)}01-01`, to }
    case '12m':
      return { from: addDays(addMonthsToEnd(today, -12), 1), to }
    case 'all':
      return { from: first === null ? today : minDate(formatDateIn(timezone, Math.max(0, first)), today), to }
  }
}

function minDate(one: string, other: string): string {
  return one < other ? one : other
}

/** Resolves a range to dates or times. */
export function resolveRange(choice: RangeChoice, moment: Moment): Range {
  const usual = resolvePreset(choice.range ?? USUAL_PRESET, choice, moment)
  return { from: choice.from ?? usual.from, to: choice.to ?? usual.to }
}

/** The distance between two periods: whole months, or whole days. */
interface Shift {
  unit: 'day' | 'month'
  count: number
}

/** The previous period, and the unit of its distance, by which days are compared. */
export interface RangeBefore extends Range {
  unit: Shift['unit']
}

/** The distance to the previous period, for presets where it does not follow from their length. */
const SHIFTS: Partial<Record<Preset, Shift>> = {
  today: { unit: 'day', count: 1 },
  yesterday: { unit: 'day', count: 1 },
  this_week: { unit: 'day', count: 7 },
  last_week: { unit: 'day', count: 7 },
  this_month: { unit: 'month', count: 1 },
  last_month: { unit: 'month', count: 1 },
  this_year: { unit: 'month', count: 12 },
  '12m': { unit: 'month', count: 12 },
}

interface Compared {
  timezone: string
  interval: Interval
  /** of a relative range */
  preset?: Preset | undefined
  /** epoch ms */
  now: number
}

/**
 * The previous period. It has the same shape: it is whole weeks earlier if the question counts by week, and whole
 * months if it counts by month or covers whole months. So its buckets are as long as those they are compared with. If
 * the range is not over yet, it ends with the same minute as the part that is, or every number would seem to fall.
 * @returns null if there is none
 */
export function findRangeBefore({ from, to }: Range, compared: Compared): RangeBefore | null {
  const { timezone, preset, now } = compared
  const [begin, end] = [toLocalTime(from, timezone), toLocalTime(to, timezone)]
  if (preset === 'all' || !begin || !end || !isBefore(begin, end)) return null
  const soFar = readClock(timezone, (Math.floor(now / MINUTE_MS) + 1) * MINUTE_MS)
  // Nothing can be compared yet.
  if (!isBefore(begin, soFar)) return null
  const shift = chooseShift(begin, end, compared)
  const isOver = !isBefore(soFar, end)
  const earlier = { from: moveBack(begin, shift), to: isOver ? moveEndBack(end, shift) : movePartBack(soFar, shift) }
  if (earlier.from.date < EPOCH) return null
  return { from: formatLocalTime(earlier.from), to: formatLocalTime(earlier.to), unit: shift.unit }
}

function formatLocalTime({ date, time }: LocalTime): string {
  return time === '' ? date : `${date}T${time}`
}

/** Whether one time is earlier than another; an empty time sorts first. */
function isBefore(one: LocalTime, other: LocalTime): boolean {
  return one.date === other.date ? one.time < other.time : one.date < other.date
}

/** By week or by month, the distance of a preset only says how many of them, and the periods must not overlap. */
function chooseShift(begin: LocalTime, end: LocalTime, { interval, preset }: Compared): Shift {
  const own = preset && SHIFTS[preset]
  const days = measureDays(begin, end)
  if (interval === 'week') {
    const wanted = own ? countDays(moveBack(begin, own).date, begin.date) : days
    return { unit: 'day', count: Math.max(Math.round(wanted / 7), Math.ceil(days / 7)) * 7 }
  }
  if (interval === 'month') return own?.unit === 'month' ? own : measureMonths(begin, end)
  const isWhole = [begin, end].every(({ date, time }) => time === '' && date.endsWith('-01'))
  return own ?? (isWhole ? measureMonths(begin, end) : { unit: 'day', count: days })
}

/** The smallest number of days after which a range does not overlap itself. */
function measureDays(begin: LocalTime, end: LocalTime): number {
  return countDays(begin.date, end.date) + (end.time > begin.time ? 1 : 0)
}

/** The smallest shift in months after which a range does not overlap itself. */
function measureMonths(begin: LocalTime, end: LocalTime): Shift {
  let count = Math.max(1, countMonths(begin.date, end.date))
  while (isBefore(begin, moveEndBack(end, { unit: 'month', count }))) count++
  return { unit: 'month', count }
}

function moveBack({ date, time }: LocalTime, { unit, count }: Shift): LocalTime {
  return { date: unit === 'day' ? addDays(date, -count) : addMonths(date, -count), time }
}

/** Moves the end of a range back; the last day of a month stays one. */
function moveEndBack(end: LocalTime, shift: Shift): LocalTime {
  if (shift.unit === 'day' || end.time !== '') return moveBack(end, shift)
  return { date: addDays(addMonthsToEnd(addDays(end.date, -1), -shift.count), 1), time: '' }
}

/** Moves the end of the part that is over back. A day that its month does not have comes after the whole month. */
function movePartBack(end: LocalTime, shift: Shift): LocalTime {
  const moved = moveBack(end, shift)
  const isMissing = shift.unit === 'month' && moved.date.slice(8) !== end.date.slice(8)
  return isMissing ? { date: addDays(moved.date, 1), time: '' } : moved
}

/** The days of a range in its time zone. */
export interface Days {
  first: string
  last: string
  /** the time of the first day at which it begins, such as `14:30`; empty if that is its beginning */
  begin: string
  /** the time of the last day at which it ends; empty if that is its end */
  end: string
}

/** The first and the last day of a range in its time zone; null if a bound is invalid. */
export function findDays({ from, to }: Range, timezone: string): Days | null {
  const [begin, end] = [toLocalTime(from, timezone), toLocalTime(to, timezone)]
  if (!begin || !end) return null
  const last = end.time === '' ? addDays(end.date, -1) : end.date
  return { first: begin.date, last, begin: begin.time, end: end.time }
}

/** The bounds of a range as its fields show them: its first and last day, or times. */
export function formatBounds(range: Range, timezone: string): { from: string; to: string } {
  const { first, last, begin, end } = findDays(range, timezone) ?? { first: '', last: '', begin: '', end: '' }
  return { from: `${first} ${begin}`.trim(), to: `${last} ${end}`.trim() }
}

/**
 * Changes a bound of a range. The other one stays, unless the range would be empty, and is then one day.
 * @param typed the bound in the form of `formatBounds`
 * @returns null if it is not a date or time
 */
export function changeBound(range: Range, bound: keyof Range, typed: string, timezone: string): Range | null {
  const [, date = '', time, offset] = isDate(typed) ? [typed, typed] : (TIME.exec(typed) ?? [])
  // 24:00 would be the day after.
  const isTime = new Date(`${date}T${time ?? '00:00'}Z`).getUTCDate() === Number(date.slice(8))
  if (!isDate(date) || offset !== undefined || !isTime) return null
  const local = { date: bound === 'to' && time === undefined ? addDays(date, 1) : date, time: shortenTime(time ?? '') }
  const other = toLocalTime(range[bound === 'to' ? 'from' : 'to'], timezone)
  const value = formatLocalTime(local)
  if (bound === 'from') return { from: value, to: other && isBefore(local, other) ? range.to : addDays(date, 1) }
  const last = local.time === '' ? addDays(local.date, -1) : local.date
  return { from: other && isBefore(other, local) ? range.from : last, to: value }
}

/** Up to this many days are counted by hour. */
const HOURLY_DAYS = 2
/** From this many days on, a range is counted by month. */
const MONTHLY_DAYS = 800
/** The range lengths in days for which an interval makes sense: more than the first, and at most the second number. */
const FITTING: Record<Interval, [more: number, most: number]> = {
  hour: [0, 62],
  day: [HOURLY_DAYS, MONTHLY_DAYS - 1],
  week: [7, Number.POSITIVE_INFINITY],
  month: [31, Number.POSITIVE_INFINITY],
  none: [0, Number.POSITIVE_INFINITY],
}

/** The default interval for a range. */
export function chooseInterval(range: Range, timezone: string): Interval {
  const days = measureLength(range, timezone)
  if (days <= HOURLY_DAYS) return 'hour'
  return days < MONTHLY_DAYS ? 'day' : 'month'
}

/** Whether a range has neither too many nor too few buckets of an interval. @param now epoch ms */
export function fitsInterval(interval: Interval, choice: RangeChoice, now: number): boolean {
  const isAll = choice.range === 'all' && choice.from === undefined
  // The first event is unknown here. An interval that suits years also suits shorter ranges.
  const days = isAll ? MONTHLY_DAYS : measureLength(resolveRange(choice, { now, first: null }), choice.timezone)
  const [more, most] = FITTING[interval]
  return days > more && days <= most
}

/** The number of days that a range touches; 0 if a bound is invalid. */
function measureLength(range: Range, timezone: string): number {
  const days = findDays(range, timezone)
  return days ? countDays(days.first, days.last) + 1 : 0
}

/** Whether it is a valid date, unlike 2026-13-01 and 2026-02-30. */
export function isDate(value: string | number): value is string {
  if (typeof value !== 'string' || !DATE.test(value)) return false
  const instant = Date.parse(value)
  // Some browsers read 30 February as 2 March.
  return !Number.isNaN(instant) && new Date(instant).toISOString().startsWith(value)
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
