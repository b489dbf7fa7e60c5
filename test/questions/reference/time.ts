/** A zone's calendar, from Intl alone: the local time at an instant. Slow and obvious. */

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** A zone changes its offset at most once in this time. */
const LOOK_MS = 6 * HOUR_MS

const clocks = new Map<string, Intl.DateTimeFormat>()
const offsets = new Map<string, number>()

/** The offset of a zone from UTC at an instant, in ms. */
function offsetAt(zone: string, instant: number): number {
  const second = Math.floor(instant / 1000) * 1000
  const key = `${zone} ${second}`
  const known = offsets.get(key)
  if (known !== undefined) return known
  const clock =
    clocks.get(zone) ??
    new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      ...{ year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' },
    })
  clocks.set(zone, clock)
  const part = Object.fromEntries(clock.formatToParts(second).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second: seconds = 0 } = part
  const offset = Date.UTC(year, month - 1, day, hour, minute, seconds) - second
  if (offsets.size > 200_000) offsets.clear()
  offsets.set(key, offset)
  return offset
}

/** The local time of a zone at an instant, as if it were UTC. */
function localTime(zone: string, instant: number): number {
  return instant + offsetAt(zone, instant)
}

/** Whether a time is a date, which stands for its first instant. */
export function isDate(time: string | number): time is string {
  return typeof time === 'string' && /^\d{4}-\d\d-\d\d$/.test(time)
}

/** The number of the local day at an instant, where 1970-01-01 is 0. */
export function dayAt(zone: string, instant: number): number {
  return Math.floor(localTime(zone, instant) / DAY_MS)
}

/** A period of time, half-open, in epoch ms. */
export interface Stretch {
  start: number
  end: number
}

/** A range cut wherever the zone's offset changes. */
function stretchesOf(zone: string, { start, end }: Stretch): Stretch[] {
  const cuts = [start]
  for (let at = start; at < end; at = nextLook(at)) {
    const next = Math.min(nextLook(at), end)
    if (offsetAt(zone, at) === offsetAt(zone, next)) continue
    let [before, after] = [at, next]
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2)
      if (offsetAt(zone, middle) === offsetAt(zone, at)) before = middle
      else after = middle
    }
    if (after < end) cuts.push(after)
  }
  return cuts.map((cut, index) => ({ start: cut, end: cuts[index + 1] ?? end }))
}

function nextLook(at: number): number {
  return (Math.floor(at / LOOK_MS) + 1) * LOOK_MS
}

/** The first instant at which the clocks of a zone show this day, or a later one if they skip it. */
function startOfDay(zone: string, day: number): number {
  for (const { start, end } of stretchesOf(zone, { start: (day - 3) * DAY_MS, end: (day + 3) * DAY_MS })) {
    const midnight = day * DAY_MS - offsetAt(zone, start)
    const first = Math.max(start, midnight)
    if (first < end) return first
  }
  throw new Error(`no day ${day} in ${zone}`)
}

/**
 * The instant with this local time, the first if there are two. If clocks skip it, the offset before the change counts.
 */
function instantOf(zone: string, local: number): number {
  const around = stretchesOf(zone, { start: local - 3 * DAY_MS, end: local + 3 * DAY_MS })
  for (const { start, end } of around) {
    const instant = local - offsetAt(zone, start)
    // Before this period, and not in the previous one: it was skipped.
    if (instant < start) return local - offsetAt(zone, start - 1)
    if (instant < end) return instant
  }
  throw new Error(`no time ${local} in ${zone}`)
}

/** The number of a date YYYY-MM-DD. */
export function dayOf(date: string): number {
  return Date.parse(`${date}T00:00:00Z`) / DAY_MS
}

export function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

/** The instant that a question names: by a date, by an ISO time (without an offset: local), or by epoch ms. */
export function timeOf(time: string | number, zone: string): number {
  if (typeof time === 'number') return time
  if (isDate(time)) return startOfDay(zone, dayOf(time))
  if (/(Z|[-+]\d\d:?\d\d)$/.test(time)) return Date.parse(time)
  return instantOf(zone, Date.parse(`${time}Z`))
}

/** An instant as the zone's local time with its offset, as in 2026-04-24T00:00:00+02:00. */
export function localText(zone: string, instant: number): string {
  const offset = offsetAt(zone, instant)
  const local = new Date(instant + offset).toISOString()
  const text = local.endsWith('.000Z') ? local.slice(0, -5) : local.slice(0, -1)
  const minutes = new Date(Math.abs(offset)).toISOString().slice(11, 19)
  return `${text}${offset < 0 ? '-' : '+'}${minutes.endsWith(':00') ? minutes.slice(0, 5) : minutes}`
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS, w: 7 * DAY_MS }

/** A duration such as 30m, in ms. */
export function durationOf(text: string): number {
  const [, count, unit = ''] = /^(\d+)([a-z]+)$/.exec(text) ?? []
  return Number(count) * (UNIT_MS[unit] ?? Number.NaN)
}

export type Unit = 'hour' | 'day' | 'week' | 'month'
export type WeekStart = 'monday' | 'sunday'

/** An hour, or a local day, week or month. A day may be in two pieces if clocks go back over midnight. */
export interface Bucket {
  /** the first day of a day, a week or a month, as a date */
  date: string
  start: number
  end: number
  pieces: Stretch[]
}

/** The buckets that overlap a range, in order; the first may begin before it, and the last may end after it. */
export function bucketsOf(unit: Unit, { start, end }: Stretch, zone: string, weekStart: WeekStart): Bucket[] {
  const stretches = stretchesOf(zone, { start: start - 40 * DAY_MS, end: end + 40 * DAY_MS })
  const pieces = stretches.flatMap((stretch) => piecesOf(stretch, zone, unit === 'hour' ? HOUR_MS : DAY_MS))
  const buckets = new Map<string | number, Bucket>()
  for (const piece of pieces) {
    const date = dateOf(firstDay(unit, piece.day, weekStart))
    const key = unit === 'hour' ? piece.start : date
    const bucket = buckets.get(key) ?? { date, start: piece.start, end: piece.end, pieces: [] }
    buckets.set(key, bucket)
    bucket.pieces.push(piece)
    bucket.end = piece.end
  }
  return [...buckets.values()].filter(({ pieces }) => pieces.some((piece) => piece.start < end && piece.end > start))
}

/** A stretch of one offset, cut at every full local hour or at every local midnight, with the day of each piece. */
function piecesOf({ start, end }: Stretch, zone: string, lengthMs: number): (Stretch & { day: number })[] {
  const offset = offsetAt(zone, start)
  const pieces: (Stretch & { day: number })[] = []
  for (let at = start; at < end; ) {
    const next = Math.min((Math.floor((at + offset) / lengthMs) + 1) * lengthMs - offset, end)
    pieces.push({ start: at, end: next, day: Math.floor((at + offset) / DAY_MS) })
    at = next
  }
  return pieces
}

function firstDay(unit: Unit, day: number, weekStart: WeekStart): number {
  const date = new Date(day * DAY_MS)
  if (unit === 'week') return day - ((date.getUTCDay() + (weekStart === 'monday' ? 6 : 0)) % 7)
  if (unit === 'month') return day - (date.getUTCDate() - 1)
  return day
}

export function isIn({ pieces }: Bucket, instant: number): boolean {
  return pieces.some(({ start, end }) => start <= instant && instant < end)
}
