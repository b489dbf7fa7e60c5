import { looksLikeSeconds, MAX_TIMESTAMP } from '../contract/limits.js'
import type { Decoded, SdkRequest } from './message.js'
import { checkDigits, FieldFault, type JsonRow, TIME_WORDS } from './row.js'
import { correctedTime, parseDecimal, type TimeFormat, toMilliseconds } from './time.js'

/** Decodes the rows of another product's export, into the same messages as its SDKs' requests if we accept those. */
export interface Vendor {
  /**
   * Decodes a row: an event, or several if the row is a visit, and its changes of profiles and names. If we have an
   * endpoint for the vendor, its decoder is used, so the same message gives the same result, including its `insertId`.
   * The event's own properties are copied byte for byte. The other fields of the row become one more property, named
   * `$` and the vendor, so that nothing is lost. Rows may repeat aliases of earlier ones; `withoutRepeatedAliases`
   * removes these.
   * @throws RowFault if the row is not from an export of this vendor
   * @throws NoEvent if the row has nothing to store
   */
  messages(row: JsonRow, options?: ExportOptions): Decoded[]
  /** why an empty file is not an export of this vendor; undefined if it may be one */
  emptyFault?: string
  /**
   * The fields of web analytics that may be missing, and without which all events lack a visit (`session_id`) or have no
   * visitor (`distinct_id`).
   */
  optionalFields?: { session_id?: string; distinct_id?: string }
}

interface ExportOptions {
  /** format of the export's times; undefined for the vendor's documented one */
  time?: TimeFormat | undefined
  /** converts numeric times, in ms, that count the local time of the vendor's project; undefined if they count UTC */
  toUtc?: ((ms: number) => number) | undefined
}

/** Where a message comes from: a request, or the row of an export. */
export interface Origin extends ExportOptions {
  /** undefined for a row of an export, which has no key to remove and whose times the vendor has corrected */
  request?: SdkRequest
  /** when the request was sent by the sender's clock, in epoch ms; null if unknown, or not to be corrected */
  sentAt?: number | null
}

/** Unit of a vendor's numeric times: milliseconds, seconds or milliseconds by size, or undocumented. */
type Unit = 'ms' | 's or ms' | 'none'

const WORDS: Record<Unit, string> = {
  ms: 'a number of milliseconds since 1970, or ISO 8601',
  's or ms': 'a number of seconds or milliseconds since 1970, or ISO 8601',
  none: 'ISO 8601',
}

/** A smaller number is a time in seconds. This is the year 5138 in seconds, and March 1973 in milliseconds. */
const SECONDS_BELOW = 1e11

/**
 * Reads the time of a message, in whole epoch ms, corrected if the sender's clock is wrong by more than a minute. A
 * live message without a time gets the time of its arrival.
 * @param text of a JSON value; undefined if the message has no time
 * @throws RowFault if the text is not a time that can be stored; it is never replaced by another one
 */
export function readTimestamp(text: string | undefined, origin: Origin, unit: Unit): number {
  const { request, sentAt = null, time, toUtc } = origin
  if (text === undefined) {
    if (request) return request.receivedAt
    throw new FieldFault('The row has no time.', 'timestamp', true)
  }
  if (!request) checkDigits(readString(text) ?? '')
  const ms = readTime(text, unit, time)
  if (request) return correctedTime(ms, { sentAt, receivedAt: request.receivedAt })
  return toUtc && parseDecimal(readString(text) ?? text) !== null ? toUtc(ms) : ms
}

/** @throws FieldFault */
function readTime(text: string, unit: Unit, format: TimeFormat | undefined): number {
  const ms = format ? timeIn(text, format) : anyTime(text, unit)
  if (typeof ms === 'number' && ms >= 0 && ms <= MAX_TIMESTAMP) return ms
  const what =
    typeof ms === 'number'
      ? 'is before 1970 or after 2286'
      : ms === 'seconds'
        ? 'looks like seconds, and milliseconds are expected'
        : `is not ${format ? TIME_WORDS[format] : WORDS[unit]}`
  throw new FieldFault(`The time ${text.slice(0, 100)} ${what}.`, 'timestamp')
}

/** Returns the content of a string; null for any other JSON value. */
function readString(text: string): string | null {
  if (!text.startsWith('"')) return null
  return (text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1)).trim()
}

function timeIn(text: string, format: TimeFormat): number | null {
  const content = readString(text)
  return content === null && format === 'iso' ? null : toMilliseconds(content ?? text, format)
}

function anyTime(text: string, unit: Unit): number | 'seconds' | null {
  const content = readString(text)
  const iso = content === null ? null : toMilliseconds(content, 'iso')
  if (iso !== null) return iso
  const number = parseDecimal(content ?? text)
  if (number === null) return null
  if (unit === 's or ms') return number < SECONDS_BELOW ? Math.round(number * 1000) : Math.trunc(number)
  if (looksLikeSeconds(number)) return 'seconds'
  // Such a number may mean anything, such as 20240101.
  return unit === 'none' && number < SECONDS_BELOW ? null : Math.trunc(number)
}

/** Reads the time at which a profile was last known, in epoch ms; undefined if missing or unreadable. */
export function lastKnown(text: string | undefined): number | undefined {
  try {
    return text === undefined ? undefined : readTime(text, 'none', undefined)
  } catch {
    return undefined
  }
}
