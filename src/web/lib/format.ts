const WHOLE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 })
const COMPACT = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
/** For numbers that would otherwise be rounded to 0 or be very long. */
const SIGNIFICANT = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 })
const SCIENTIFIC = new Intl.NumberFormat(undefined, { notation: 'scientific', maximumSignificantDigits: 3 })
const HUGE = 1e18
const TINY = 1e-6
const SHARE = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 })
const SIGNED_SHARE = new Intl.NumberFormat(undefined, {
  style: 'percent',
  maximumFractionDigits: 1,
  signDisplay: 'exceptZero',
})
const INSTANT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' })
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'short' })
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'full' })
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })
const BYTE_UNITS = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte']

/** Formats a number for display. */
export function formatNumber(value: number): string {
  return chooseFormat(value, WHOLE).format(value)
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
  return new Intl.NumberFormat(undefined, { notation, maximumFractionDigits: Math.max(2, digits) }).format(value)
}

function chooseFormat(value: number, usual: Intl.NumberFormat): Intl.NumberFormat {
  const size = Math.abs(value)
  if (size >= HUGE || (size < TINY && size > 0)) return SCIENTIFIC
  return size < 0.1 && size > 0 ? SIGNIFICANT : usual
}

/** @param share 0 to 1 */
export function formatShare(share: number): string {
  return SHARE.format(share)
}

/** Formats a relative change, such as `+12%`. */
export function formatSignedShare(share: number): string {
  return SIGNED_SHARE.format(share)
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

/** Formats an instant for small spaces; today, only the time. */
export function formatMoment(instant: number, now = Date.now()): string {
  const isToday = new Date(instant).toDateString() === new Date(now).toDateString()
  return (isToday ? CLOCK : DAY_AND_CLOCK).format(instant)
}

/** Formats a time relative to now, such as `3 minutes ago`. */
export function formatAgo(instant: number, now = Date.now()): string {
  const seconds = (instant - now) / 1000
  const units = [
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ] as const
  for (const [unit, length] of units) {
    if (Math.abs(seconds) >= length) return RELATIVE.format(Math.trunc(seconds / length), unit)
  }
  return RELATIVE.format(Math.trunc(seconds), 'second')
}

/** Formats a day relative to today, such as `yesterday`. @param day in UTC, such as `2026-11-26` */
export function formatDaysAgo(day: string, now = Date.now()): string {
  const days = Math.floor((now - Date.parse(day)) / 86_400_000)
  // Not -0, which would be formatted as a day ahead.
  return RELATIVE.format(days === 0 ? 0 : -days, 'day')
}

export function formatBytes(bytes: number): string {
  const step = Math.min(BYTE_UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const options = { style: 'unit', unit: BYTE_UNITS[step], unitDisplay: 'short', maximumFractionDigits: 1 } as const
  return new Intl.NumberFormat(undefined, options as Intl.NumberFormatOptions).format(bytes / 1000 ** step)
}

/** Formats a duration, such as `3 h 5 min`. @param ms the duration */
export function formatDuration(ms: number): string {
  const units = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1_000],
  ] as const
  const first = units.findIndex(([, length]) => ms >= length)
  if (first < 0) return `${Math.round(ms)} ms`
  const parts: string[] = []
  let rest = ms
  for (const [unit, length] of units.slice(first, first + 2)) {
    const count = Math.floor(rest / length)
    rest -= count * length
    if (count > 0) parts.push(`${count} ${unit}`)
  }
  return parts.join(' ')
}
