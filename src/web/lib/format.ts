import { DAY_MS, HOUR_MS } from '../../contract/durations.js'
import { createInstantFormat, createNumberFormat, type NumberFormat, PLURALS, RELATIVE_TIME } from './intl.js'
import { getProjectSettings } from './project-settings.js'

const WHOLE = createNumberFormat({ maximumFractionDigits: 2 })
const COMPACT = createNumberFormat({ notation: 'compact', maximumFractionDigits: 1 })
/** For numbers that would otherwise be rounded to 0 or be very long. */
const SIGNIFICANT = createNumberFormat({ maximumSignificantDigits: 3 })
const SCIENTIFIC = createNumberFormat({ notation: 'scientific', maximumSignificantDigits: 3 })
const HUGE = 1e18
const TINY = 1e-6
const SHARE = createNumberFormat({ style: 'percent', maximumFractionDigits: 1 })
/** For shares that would otherwise be rounded to 0, as if there were none. */
const SMALL_SHARE = createNumberFormat({ style: 'percent', maximumSignificantDigits: 1 })
/** For shares that would otherwise be rounded to 1, as if these were all. */
const LARGE_SHARE = createNumberFormat({ style: 'percent', maximumFractionDigits: 1, roundingMode: 'trunc' })
const INSTANT = createInstantFormat({ dateStyle: 'medium', timeStyle: 'medium' })
const CLOCK = createInstantFormat({ timeStyle: 'medium' })
const DAY_AND_CLOCK = createInstantFormat({ month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit' })
const DAY = createInstantFormat({ dateStyle: 'full' })
const DATE = createInstantFormat({ dateStyle: 'medium' })
/** Keeps a number and its unit on one line. */
const NO_BREAK = '\u00a0'
const BYTE_UNITS = ['kilobyte', 'megabyte', 'gigabyte', 'terabyte']

/** Formats a number for display. */
export function formatNumber(value: number): string {
  return chooseFormat(value, WHOLE).format(value)
}

/** Formats an amount of money in the currency of the project; without one, it is a plain number. */
export function formatMoney(value: number): string {
  const { currency } = getProjectSettings()
  if (currency === null || Math.abs(value) >= HUGE) return formatNumber(value)
  if (money?.currency !== currency) {
    const options = { style: 'currency', currency } as const
    const small = createNumberFormat({ ...options, maximumSignificantDigits: 3 })
    money = { currency, usual: createNumberFormat(options), small }
  }
  // A price per call may be a fraction of a cent.
  return (Math.abs(value) < 0.1 && value !== 0 ? money.small : money.usual).format(value)
}

/** The most recently used formats of amounts, because creating them is slow. */
let money: { currency: string; usual: NumberFormat; small: NumberFormat } | undefined

/** Formats a count with its noun, such as `1 event` and `2 events`. @param other the plural, if it is not `one` with an s */
export function formatCount(count: number, one: string, other = `${one}s`): string {
  return `${formatNumber(count)}${NO_BREAK}${PLURALS.select(count) === 'one' ? one : other}`
}

/** Capitalizes a text, such as the name of a unit in a heading. */
export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Formats a number for small spaces, such as `1.2M`. */
export function formatCompact(value: number): string {
  return chooseFormat(value, COMPACT).format(value)
}

/** Formats a tick of an axis. @param step distance between ticks, which determines the number of digits */
export function formatTick(value: number, step: number): string {
  if (value === 0) return '0'
  // Steps are 1, 2, 2.5 or 5 times a power of ten.
  const digits = Math.max(0, 1 - Math.floor(Math.log10(step)))
  if (step < TINY || Math.abs(value) >= HUGE) return SCIENTIFIC.format(value)
  const notation = step < 1 ? 'standard' : 'compact'
  return createNumberFormat({ notation, maximumFractionDigits: Math.max(2, digits) }).format(value)
}

function chooseFormat(value: number, usual: NumberFormat): NumberFormat {
  const size = Math.abs(value)
  if (size >= HUGE || (size < TINY && size > 0)) return SCIENTIFIC
  return size < 0.1 && size > 0 ? SIGNIFICANT : usual
}

/** @param share 0 to 1 */
export function formatShare(share: number): string {
  const size = Math.abs(share)
  return (size < 0.001 ? SMALL_SHARE : size > 0.999 && size < 1 ? LARGE_SHARE : SHARE).format(share)
}

/** @param instant epoch ms */
export function formatTime(instant: number): string {
  return INSTANT.format(instant)
}

/** Formats a time of day. @param instant epoch ms */
export function formatClock(instant: number): string {
  return CLOCK.format(instant)
}

/** Formats a day with its weekday. @param instant epoch ms */
export function formatDay(instant: number): string {
  return DAY.format(instant)
}

/** Formats a date, such as `Jan 3, 2024`. @param instant epoch ms */
export function formatDate(instant: number): string {
  return DATE.format(instant)
}

/** Formats an instant for small spaces: today without the date, and in other years without the time. */
export function formatMoment(instant: number, now = Date.now()): string {
  const [date, today] = [DATE.format(instant), DATE.format(now)]
  if (date === today) return CLOCK.format(instant)
  const isThisYear = date.split(', ')[1] === today.split(', ')[1]
  return isThisYear ? DAY_AND_CLOCK.format(instant) : date
}

/** Formats a time relative to now, such as `3 minutes ago`. */
export function formatAgo(instant: number, now = Date.now()): string {
  const seconds = (instant - now) / 1000
  const units = [
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ] as const
  const [unit, length] = units.find(([, length]) => Math.abs(seconds) >= length) ?? (['second', 1] as const)
  return RELATIVE_TIME.format(Math.trunc(seconds / length), unit).replace(/(?<=\d) /, NO_BREAK)
}

/** Formats a day relative to today, such as `yesterday`. @param day in UTC, such as `2026-11-26` */
export function formatDaysAgo(day: string): string {
  const days = Math.floor((Date.now() - Date.parse(day)) / DAY_MS)
  // Avoid -0, which would be formatted as a day ahead.
  return RELATIVE_TIME.format(days === 0 ? 0 : -days, 'day')
}

/** Formats a size, such as `1.5 MB`. */
export function formatBytes(bytes: number): string {
  const step = Math.min(BYTE_UNITS.length, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  const unit = BYTE_UNITS[step - 1]
  // `Intl` has no plural for the unit.
  if (unit === undefined) return formatCount(bytes, 'byte')
  const format = createNumberFormat({ style: 'unit', unit, unitDisplay: 'short', maximumFractionDigits: 1 })
  return format.format(bytes / 1000 ** step).replace(' ', NO_BREAK)
}

const DURATION_UNITS = [
  ['d', DAY_MS],
  ['h', HOUR_MS],
  ['min', 60_000],
  ['s', 1_000],
] as const

/** Formats a duration, such as `3 h 5 min` or `1.5 s`. @param ms the duration */
export function formatDuration(ms: number): string {
  const [whole, tenths] = [Math.round(ms), Math.round(ms / 100)]
  if (whole < 1_000) return `${whole}${NO_BREAK}ms`
  if (tenths < 100) return `${formatNumber(tenths / 10)}${NO_BREAK}s`
  const smallest = findDurationUnits(ms).at(-1)?.[1] ?? 1
  // Rounding may lead to a larger unit.
  let rest = Math.round(ms / smallest) * smallest
  const parts: string[] = []
  for (const [unit, length] of findDurationUnits(rest)) {
    const count = Math.floor(rest / length)
    rest -= count * length
    if (count > 0) parts.push(`${count}${NO_BREAK}${unit}`)
  }
  return parts.join(' ')
}

/** The two units of a duration of at least a second. */
function findDurationUnits(ms: number): readonly (typeof DURATION_UNITS)[number][] {
  const first = DURATION_UNITS.findIndex(([, length]) => ms >= length)
  return DURATION_UNITS.slice(first, first + 2)
}

const WINDOW_UNITS: Record<string, string> = {
  ms: 'millisecond',
  s: 'second',
  m: 'minute',
  h: 'hour',
  d: 'day',
  w: 'week',
}

/** Formats a duration as questions spell it: `30m` as `30 minutes`. */
export function formatWindow(window: string): string {
  const [, count, unit = ''] = /^(\d+)(ms|[smhdw])$/.exec(window) ?? []
  return WINDOW_UNITS[unit] === undefined ? window : formatCount(Number(count), WINDOW_UNITS[unit])
}
