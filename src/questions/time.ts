import { Temporal } from 'temporal-polyfill'
import { DAY_MS, HOUR_MS } from '../contract/durations.js'
import type { Interval, RangeQuestion } from '../contract/questions.js'

const DATE = /^\d{4}-\d\d-\d\d$/
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(Z|[+-]\d\d(?::?\d\d)?|[+-]\d\d:\d\d:\d\d)?$/i

export type Unit = Exclude<Interval, 'none'>
export type WeekStart = RangeQuestion['week_start']

/** Instants in epoch ms, half-open. */
export interface Range {
  from: number
  to: number
}

/** A local hour, day, week or month. */
interface Bucket extends Range {
  /** its first instant in local time, with the offset */
  at: string
  /** the local date on which it begins */
  date: string
}

/**
 * The buckets of a range, in order. If clocks are set back across midnight, a local day has two pieces, so an instant
 * belongs to the bucket `numbers[i]` of the last `starts[i]` that is not after it.
 */
export interface Buckets {
  /** whole units: the first may begin before the range, and the last end after it */
  buckets: Bucket[]
  starts: number[]
  numbers: number[]
}

/**
 * Parses a date (the first instant of that local day), an ISO time (local if it has no offset; the offset may have
 * seconds, as in answers), or epoch ms.
 * @returns epoch ms; null for anything else
 */
export function parseInstant(text: string | number, timezone: string): number | null {
  if (typeof text === 'number') return text
  try {
    if (DATE.test(text)) return Temporal.PlainDate.from(text).toZonedDateTime(timezone).epochMilliseconds
    const time = TIME.exec(text)
    if (!time) return null
    const instant = time[1]
      ? Temporal.Instant.from(text)
      : Temporal.PlainDateTime.from(text).toZonedDateTime(timezone).toInstant()
    const ms = instant.epochMilliseconds
    return ms + Number(instant.epochNanoseconds - BigInt(ms) * 1_000_000n) / 1e6
  } catch {
    return null
  }
}

/** Whether a bound is a date instead of a time. */
export function isDate(text: string | number): text is string {
  return typeof text === 'string' && DATE.test(text)
}

/** The range of a parsed question. */
export function parseRange({ from, to, timezone }: Pick<RangeQuestion, 'from' | 'to' | 'timezone'>): Range {
  return { from: parseInstant(from, timezone) ?? 0, to: parseInstant(to, timezone) ?? 0 }
}

/** Which sessions a parsed question is about. */
export function parseSessions(question: Pick<RangeQuestion, 'from' | 'to' | 'timezone' | 'sessions'>) {
  return { definition: question.sessions, ...parseRange(question) }
}

/** The local date of an instant, `days` later, as YYYY-MM-DD. */
export function formatLocalDate(ms: number, timezone: string, days = 0): string {
  return toZoned(ms, timezone).toPlainDate().add({ days }).toString()
}

/** A date plus a number of days. */
export function addDays(date: string, days: number): string {
  return Temporal.PlainDate.from(date).add({ days }).toString()
}

/** An instant in local time, with its offset: `2026-04-24T00:00:00+02:00`, with milliseconds only if there are any. */
export function formatInstant(ms: number, timezone: string): string {
  return formatLocal(ms, toZoned(ms, timezone).offsetNanoseconds / 1e6)
}

/** @param offset from UTC, ms */
function formatLocal(ms: number, offset: number): string {
  const local = new Date(Math.floor(ms) + offset).toISOString().replace(/(\.000)?Z$/, '')
  const seconds = Math.abs(offset) / 1000
  const parts = [seconds / 3600, (seconds / 60) % 60, ...(seconds % 60 === 0 ? [] : [seconds % 60])]
  const text = parts.map((part) => String(Math.floor(part)).padStart(2, '0')).join(':')
  return `${local}${offset < 0 ? '-' : '+'}${text}`
}

/** Shortest duration of a unit, which limits how many a range can have. */
const LEAST_MS: Record<Unit, number> = {
  hour: HOUR_MS,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 28 * DAY_MS,
}
/** Longer than a unit can last, even if clocks are changed in it. */
const MOST_MS: Record<Unit, number> = {
  hour: 3 * DAY_MS,
  day: 4 * DAY_MS,
  week: 10 * DAY_MS,
  month: 35 * DAY_MS,
}

/** About how many buckets a range has: one or two less at its edges. */
export function countBuckets({ from, to }: Range, unit: Unit): number {
  return Math.ceil((to - from) / LEAST_MS[unit])
}

/**
 * The local hours, days, weeks or months that overlap a range. Hours are counted within one offset: a change of the
 * offset begins a new one. Every other bucket consists of all instants of its local dates, so a skipped date has no
 * bucket.
 */
export function splitIntoBuckets({ from, to }: Range, unit: Unit, timezone: string, weekStart: WeekStart): Buckets {
  const pieces = splitIntoPieces({ from: from - MOST_MS[unit], to: to + MOST_MS[unit] }, unit, timezone, weekStart)
  const byKey = new Map<number, Piece[]>()
  for (const [i, piece] of pieces.entries()) {
    // An hour has only one piece.
    const key = unit === 'hour' ? i : piece.key
    const known = byKey.get(key)
    if (known) known.push(piece)
    else byKey.set(key, [piece])
  }
  const touched = [...byKey.values()].filter((pieces) => pieces.some((piece) => piece.from < to && piece.to > from))
  const buckets = touched.flatMap((pieces) => {
    const [first, last] = [pieces[0], pieces.at(-1)]
    if (!first || !last) return []
    const at = formatLocal(first.from, first.offset)
    return { at, date: at.slice(0, 10), from: first.from, to: last.to }
  })
  const starts = touched
    .flatMap((pieces, number) => pieces.map((piece) => ({ at: piece.from, number })))
    .sort((a, b) => a.at - b.at)
    // A piece that follows another one of the same bucket does not begin a bucket.
    .filter(({ number }, i, all) => all[i - 1]?.number !== number)
  return { buckets, starts: starts.map(({ at }) => at), numbers: starts.map(({ number }) => number) }
}

/** A range with one offset within one unit; `key` counts units from 1970 in local time. */
interface Piece extends Range {
  key: number
  offset: number
}

function splitIntoPieces(range: Range, unit: Unit, timezone: string, weekStart: WeekStart): Piece[] {
  const pieces: Piece[] = []
  for (const { from, to, offset } of findOffsets(range, timezone)) {
    for (let at = from; at < to; ) {
      const key = countUnits(at + offset, unit, weekStart)
      const end = Math.min(findUnitStart(key + 1, unit, weekStart) - offset, to)
      pieces.push({ from: at, to: end, key, offset })
      at = end
    }
  }
  return pieces
}

/** The number of the unit that contains a local time; the unit of 1970-01-01 is 0. */
function countUnits(local: number, unit: Unit, weekStart: WeekStart): number {
  switch (unit) {
    case 'hour':
      return Math.floor(local / HOUR_MS)
    case 'day':
      return Math.floor(local / DAY_MS)
    case 'week':
      return Math.floor((Math.floor(local / DAY_MS) + countWeekShift(weekStart)) / 7)
    case 'month': {
      const date = new Date(local)
      return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()
    }
  }
}

/** The local time at which a unit begins. */
function findUnitStart(key: number, unit: Unit, weekStart: WeekStart): number {
  switch (unit) {
    case 'hour':
      return key * HOUR_MS
    case 'day':
      return key * DAY_MS
    case 'week':
      return (key * 7 - countWeekShift(weekStart)) * DAY_MS
    case 'month':
      return Date.UTC(1970 + Math.floor(key / 12), ((key % 12) + 12) % 12)
  }
}

/** 1970-01-01 was a Thursday. */
function countWeekShift(weekStart: WeekStart): number {
  return weekStart === 'monday' ? 3 : 4
}

/** The offsets from UTC within a range, in ms. */
function findOffsets({ from, to }: Range, timezone: string): (Range & { offset: number })[] {
  const found: (Range & { offset: number })[] = []
  let start = toZoned(from, timezone)
  for (let at = from; at < to; ) {
    const next = start.getTimeZoneTransition('next')
    const end = Math.min(next?.epochMilliseconds ?? to, to)
    found.push({ from: at, to: end, offset: start.offsetNanoseconds / 1e6 })
    at = end
    if (next) start = next
  }
  return found
}

function toZoned(ms: number, timezone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(Math.floor(ms)).toZonedDateTimeISO(timezone)
}
