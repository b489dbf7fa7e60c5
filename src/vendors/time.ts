import { MAX_TIMESTAMP } from '../contract/limits.js'

/** How an input writes its times: as ISO 8601, or as seconds, milli-, micro- or nanoseconds since 1970. */
export const TIME_FORMATS = ['iso', 's', 'ms', 'us', 'ns'] as const
export type TimeFormat = (typeof TIME_FORMATS)[number]

const ISO_8601 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|UTC|GMT|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?$/i
const PLAIN_ISO = 'YYYY-MM-DDTHH:mm:ss.sssZ'
/** in days */
const SHORTEST_MONTH = 28
const ZERO = 0x30
const DECIMAL = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i
const MINUTE_MS = 60_000
const DIGITS_BELOW_MS = { us: 3, ns: 6 }

/**
 * Converts a time to whole milliseconds since 1970. Fractions of a millisecond are truncated, except that a time in
 * seconds is rounded to the nearest millisecond. An ISO time without a zone is in UTC.
 * @param text a number as the input spells it, or the content of a string
 * @returns null if the text is not a time in this format
 */
export function toMilliseconds(text: string, format: TimeFormat): number | null {
  if (format === 'iso') return fromIso(text)
  const number = parseDecimal(text) ?? Number.NaN
  // Nanoseconds have more digits than a number keeps.
  if (format === 'us' || format === 'ns') return wholeMilliseconds(text, number, DIGITS_BELOW_MS[format])
  const ms = format === 's' ? Math.round(number * 1000) : Math.trunc(number)
  return Number.isFinite(ms) ? ms : null
}

/** @param digits number of digits below a millisecond */
function wholeMilliseconds(text: string, number: number, digits: number): number | null {
  if (/^\d+$/.test(text)) return Number(text.slice(0, -digits))
  return Number.isFinite(number) ? Math.trunc(number / 10 ** digits) : null
}

/** Parses a decimal number; null for any other text, and for numbers out of range. */
export function parseDecimal(text: string): number | null {
  const number = DECIMAL.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(number) ? number : null
}

function fromIso(text: string): number | null {
  return fromPlainIso(text) ?? fromAnyIso(text)
}

/** Fast path of `fromAnyIso` for the format of `toISOString`, which most SDKs send; null if undecided. */
function fromPlainIso(text: string): number | null {
  const isPlain =
    text.length === PLAIN_ISO.length &&
    text[4] === '-' &&
    text[7] === '-' &&
    text[10] === 'T' &&
    text[13] === ':' &&
    text[16] === ':' &&
    text[19] === '.' &&
    text[23] === 'Z'
  if (!isPlain) return null
  const [year, month, day] = [numberAt(text, 0, 4), numberAt(text, 5, 2), numberAt(text, 8, 2)]
  const [hour, minute, second] = [numberAt(text, 11, 2), numberAt(text, 14, 2), numberAt(text, 17, 2)]
  // Date.UTC misreads years before 100, and turns invalid last days of a month into the next month.
  const isDay = year >= 100 && month >= 1 && month <= 12 && day >= 1 && day <= SHORTEST_MONTH
  if (!isDay || !(hour < 24 && minute < 60 && second < 60)) return null
  const ms = Date.UTC(year, month - 1, day, hour, minute, second, numberAt(text, 20, 3))
  return Number.isNaN(ms) ? null : ms
}

/** Parses a fixed number of digits; NaN if there are other characters. */
function numberAt(text: string, start: number, count: number): number {
  let number = 0
  for (let at = start; at < start + count; at++) {
    const digit = text.charCodeAt(at) - ZERO
    number = digit >= 0 && digit <= 9 ? 10 * number + digit : Number.NaN
  }
  return number
}

function fromAnyIso(text: string): number | null {
  const match = ISO_8601.exec(text)
  if (!match) return null
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0))
  const ms = Math.trunc(Number(`0.${match[7] ?? 0}`) * 1000)
  const utc = Date.UTC(year, month - 1, day, hour, minute, second, ms)
  // Date.UTC would turn 31 April into 1 May, so such dates are refused.
  const isReal = new Date(utc).toISOString().startsWith(`${text.slice(0, 10)}T`) && minute < 60 && second < 60
  return isReal && hour < 24 ? utc - zoneMinutes(match[8]) * MINUTE_MS : null
}

function zoneMinutes(zone = 'Z'): number {
  if (/^[A-Z]/i.test(zone)) return 0
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(3).replace(':', ''))
  return zone.startsWith('-') ? -minutes : minutes
}

/** Clocks that differ by less than this are not corrected, because a request takes time itself. */
const SKEW_MS = 60_000

/**
 * Corrects a time, in epoch ms, if the sender's clock is wrong by more than a minute. A correction that would leave
 * the storable range is not made, because then the sender's clock is useless.
 * @param sentAt when the request was sent by the sender's clock, in epoch ms; null if unknown, or not to be corrected
 */
export function correctedTime(
  time: number,
  { sentAt, receivedAt }: { sentAt: number | null; receivedAt: number },
): number {
  const skew = sentAt === null ? 0 : receivedAt - sentAt
  const corrected = Math.abs(skew) <= SKEW_MS ? time : time + skew
  return corrected >= 0 && corrected <= MAX_TIMESTAMP ? corrected : time
}
