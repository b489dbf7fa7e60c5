const WHOLE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 })
const COMPACT = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
/** For numbers that would be nothing, or very long, otherwise. */
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

/** A number as people write it. */
export function formatNumber(value: number): string {
  return chooseFormat(value, WHOLE).format(value)
}

/** A number where there is little room, such as `1.2M`. */
export function formatCompact(value: number): string {
  return chooseFormat(value, COMPACT).format(value)
}

/** A number beside a line of a chart. @param step to the next line: as many digits as tell them apart */
export function formatTick(value: number, step: number): string {
  if (value === 0) return '0'
  // Steps are 1, 2, 2.5 or 5, or those times a power of ten.
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

/** A share of 0 to 1. */
export function formatShare(share: number): string {
  return SHARE.format(share)
}

/** A change as a share, such as `+12 %`. */
export function formatSignedShare(share: number): string {
  return SIGNED_SHARE.format(share)
}

/** @param instant epoch ms */
export function formatTime(instant: number): string {
  return INSTANT.format(instant)
}

/** @param instant epoch ms; the time of the day */
export function formatClock(instant: number): string {
  return CLOCK.format(instant)
}

/** @param instant epoch ms; the day, with its weekday */
export function formatDay(instant: number): string {
  return DAY.format(instant)
}

/** An instant where there is little room: today, only the time. */
export function formatMoment(instant: number, now = Date.now()): string {
  const isToday = new Date(instant).toDateString() === new Date(now).toDateString()
  return (isToday ? CLOCK : DAY_AND_CLOCK).format(instant)
}

/** How long ago an instant is, such as `3 minutes ago`. */
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

export function formatBytes(bytes: number): string {
  const step = Math.min(BYTE_UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const options = { style: 'unit', unit: BYTE_UNITS[step], unitDisplay: 'short', maximumFractionDigits: 1 } as const
  return new Intl.NumberFormat(undefined, options as Intl.NumberFormatOptions).format(bytes / 1000 ** step)
}

/** @param ms a duration, such as `3 h 5 min` */
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
