import { isLikeSeconds, MAX_TIMESTAMP } from '../contract/limits.js'
import type { Decoded, SdkRequest } from './message.js'
import { FieldFault, type JsonRow } from './row.js'
import { correctedTime, parseDecimal, type TimeFormat, toMilliseconds } from './time.js'

/** How the rows of another product's export become what the product's SDKs say live. */
export interface Vendor {
  /**
   * What a row says: an event, and what it changes in profiles and names. The decoder is the one for live messages, so the
   * same message gives the same here, its `insertId` included. The event's own properties are copied byte for byte. The
   * other fields of the row become one more property, named `$` and the vendor, so that nothing is lost. Each row may
   * repeat an alias that an earlier one made; `withoutRepeatedAliases` drops these.
   * @throws RowFault if the row is nothing that this vendor exports
   * @throws NoEvent if the row says nothing that is kept
   */
  messages(row: JsonRow, options?: ExportOptions): Decoded[]
}

interface ExportOptions {
  /** how the times of the export are written; undefined: as the vendor's documents say */
  time?: TimeFormat | undefined
}

/** Where a message comes from: a request, or the row of an export. */
export interface Origin extends ExportOptions {
  /** undefined for a row of an export: there nothing is cut out, and the vendor has corrected the times */
  request?: SdkRequest
  /** when the sender says that it sent the request, in epoch ms; null if it does not say, or must not be corrected */
  sentAt?: number | null
}

/** The unit in which a vendor gives times as numbers: it takes milliseconds, tells both by their size, or documents none. */
type Unit = 'ms' | 's or ms' | 'none'

const WORDS: Record<Unit, string> = {
  ms: 'a number of milliseconds since 1970, or ISO 8601',
  's or ms': 'a number of seconds or milliseconds since 1970, or ISO 8601',
  none: 'ISO 8601',
}

/** A number below this is a time in seconds: it is the year 5138, and as milliseconds it is March 1973. */
const SECONDS_BELOW = 1e11

/**
 * The time of a message in whole epoch milliseconds. Where the sender's clock is wrong by more than a minute it is
 * corrected. A live message without a time has that of its arrival.
 * @param text of a JSON value; undefined if the message has no time
 * @throws FieldFault if the text is not a time, or not one that can be stored: it is never taken for another one
 */
export function readTimestamp(text: string | undefined, { request, sentAt = null, time }: Origin, unit: Unit): number {
  if (text === undefined) {
    if (request) return request.receivedAt
    throw new FieldFault('The row has no time.', 'timestamp', true)
  }
  const ms = readTime(text, unit, time)
  return request ? correctedTime(ms, { sentAt, receivedAt: request.receivedAt }) : ms
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
        : `is not ${format ? FORMAT_WORDS[format] : WORDS[unit]}`
  throw new FieldFault(`The time ${text.slice(0, 100)} ${what}.`, 'timestamp')
}

const FORMAT_WORDS: Record<TimeFormat, string> = {
  iso: 'an ISO 8601 time',
  s: 'a number of seconds',
  ms: 'a number of milliseconds',
  us: 'a number of microseconds',
  ns: 'a number of nanoseconds',
}

/** The content of a string; null for any other JSON value. */
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
  if (isLikeSeconds(number)) return 'seconds'
  // Such a number may be anything, such as 20240101.
  return unit === 'none' && number < SECONDS_BELOW ? null : Math.trunc(number)
}

/** A time that says when something was last known, in epoch ms; undefined if there is none that can be read. */
export function lastKnown(text: string | undefined): number | undefined {
  try {
    return text === undefined ? undefined : readTime(text, 'none', undefined)
  } catch {
    return undefined
  }
}
