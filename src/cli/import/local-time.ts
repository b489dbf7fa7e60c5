import { Temporal } from 'temporal-polyfill'
import { toMilliseconds } from '../../vendors/time.js'

/** Matches an ISO 8601 time with a zone. */
const ZONED = /\d:\d\d.*(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)$/i
/** Nearly all offsets change at a quarter of an hour, so they are cached for each. */
const QUARTER_MS = 15 * 60_000
const MAX_REMEMBERED = 10_000

let remembered = { zone: '', offsets: new Map<number, number>() }

/**
 * Converts an ISO 8601 time to whole milliseconds since 1970. One without a zone is local time. A time that exists
 * twice, when the clock goes back, is the first of the two; one that does not exist, when the clock goes forward, is
 * taken with the offset from before the change. RFC 5545 and Temporal have the same rules.
 * @param zone an IANA name
 * @returns null if the text is not an ISO 8601 time
 */
export function localMilliseconds(text: string, zone: string): number | null {
  const local = toMilliseconds(text, 'iso')
  return local === null || ZONED.test(text) ? local : toUtc(local, zone)
}

/**
 * Converts a local time, with the rules of `localMilliseconds`.
 * @param local the local time, as if it were UTC, in ms
 * @param zone an IANA name
 */
export function toUtc(local: number, zone: string): number {
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
  const time = Temporal.PlainDateTime.from(new Date(local).toISOString().slice(0, -1))
  return local - time.toZonedDateTime(zone).epochMilliseconds
}
