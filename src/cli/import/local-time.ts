import { toMilliseconds } from '../../vendors/time.js'

/** Matches an ISO 8601 time with a zone. */
const ZONED = /\d:\d\d.*(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)$/i
/** Nearly all offsets change at a quarter of an hour, so they are cached for each. */
const QUARTER_MS = 15 * 60_000
const DAY_MS = 24 * 60 * 60_000
const MAX_REMEMBERED = 10_000

/** Whether this is an IANA zone name that this Node knows. */
export function isZone(name: string): boolean {
  // An offset such as +02:00 is not a zone, because it ignores daylight saving time.
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}

let remembered = { zone: '', offsets: new Map<number, number>() }

/**
 * Converts an ISO 8601 time to whole milliseconds since 1970. One without a zone is local time. A time that exists
 * twice, when the clock goes back, is the first of the two; one that does not exist, when the clock goes forward, is
 * taken with the offset from before the change. RFC 5545 has the same rules.
 * @param zone an IANA name
 * @returns null if the text is not an ISO 8601 time
 */
export function localMilliseconds(text: string, zone: string): number | null {
  const local = toMilliseconds(text, 'iso')
  if (local === null || ZONED.test(text)) return local
  if (remembered.zone !== zone) remembered = { zone, offsets: new Map() }
  const { offsets } = remembered
  const quarter = Math.floor(local / QUARTER_MS)
  const known = offsets.get(quarter)
  if (known !== undefined) return local - known
  const offset = findOffset(quarter * QUARTER_MS, zone)
  if (offset !== findOffset((quarter + 1) * QUARTER_MS, zone)) return local - findOffset(local, zone)
  if (offsets.size === MAX_REMEMBERED) offsets.clear()
  offsets.set(quarter, offset)
  return local - offset
}

/**
 * Finds the offset of a local time, in ms.
 * @param local the local time, as if it were UTC
 */
function findOffset(local: number, zone: string): number {
  const [before, after] = [offsetAt(local - DAY_MS, zone), offsetAt(local + DAY_MS, zone)]
  const isRight = (offset: number) => offsetAt(local - offset, zone) === offset
  // If the time exists twice, take the first; if it does not exist, use the offset from before the change.
  return !isRight(before) && isRight(after) ? after : before
}

let formatter = { zone: '', format: new Intl.DateTimeFormat('en') }

/** Returns the offset of a zone at an instant, in ms. */
function offsetAt(instant: number, zone: string): number {
  if (formatter.zone !== zone) {
    const fields = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric' } as const
    const format = new Intl.DateTimeFormat('en', { timeZone: zone, hourCycle: 'h23', ...fields, second: 'numeric' })
    formatter = { zone, format }
  }
  const parts = new Map(formatter.format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]))
  const of = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0
  const local = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'))
  return local - Math.floor(instant / 1000) * 1000
}
