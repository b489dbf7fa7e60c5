import { MAX_TIMESTAMP } from '../contract/limits.js'

/** How an input writes its times: as ISO 8601, or as seconds or milliseconds since 1970. */
export const TIME_FORMATS = ['iso', 's', 'ms'] as const
export type TimeFormat = (typeof TIME_FORMATS)[number]

const ISO_8601 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i
/** Zeros are digits. */
const PLAIN_ISO = '0000-00-00T00:00:00.000Z'
const ZERO = 0x30
const DECIMAL = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i
const MINUTE_MS = 60_000

/**
 * Converts a time to whole milliseconds since 1970. Fractions of a millisecond are truncated, except that a time in seconds
 * is rounded to the nearest millisecond. An ISO time without a zone is in UTC.
 * @param text a number as the input spells it, or the content of a string
 * @returns null if the text is not a time in this format
 */
export function toMilliseconds(text: string, format: TimeFormat): number | null {
  if (format === 'iso') return fromIso(text)
  if (!DECIMAL.test(text)) return null
  return format === 's' ? Math.round(Number(text) * 1000) : Math.trunc(Number(text))
}

function fromIso(text: string): number | null {
  return fromPlainIso(text) ?? fromAnyIso(text)
}

/** As `fromAnyIso`, for what `toISOString` writes, as most SDKs send it; null for some of these, too. */
function fromPlainIso(text: string): number | null {
  // Years with a zero in front are left to the other, which knows them.
  if (text.length !== PLAIN_ISO.length || text.charCodeAt(0) === ZERO) return null
  for (let i = 0; i < PLAIN_ISO.length; i++) {
    const [code, wanted] = [text.charCodeAt(i), PLAIN_ISO.charCodeAt(i)]
    if (wanted === ZERO ? code < ZERO || code > ZERO + 9 : code !== wanted) return null
  }
  // Of the last days of a month Date.parse would make the first of the next.
  if (text.charCodeAt(8) > ZERO + 2 || (text.charCodeAt(8) === ZERO + 2 && text.charCodeAt(9) === ZERO + 9)) return null
  const ms = Date.parse(text)
  return Number.isNaN(ms) || text.charCodeAt(11) === ZERO + 2 ? null : ms
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
  if (zone.toUpperCase() === 'Z') return 0
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(3).replace(':', ''))
  return zone.startsWith('-') ? -minutes : minutes
}

/** Clocks that differ by less than this are left alone: a request takes its time. */
const SKEW_MS = 60_000

/**
 * The time of a message in whole epoch milliseconds, corrected by the sender's clock where that is wrong by more than a
 * minute; the time of arrival if the message has no time, or one that cannot be stored.
 * @param sentAt when the sender says that it sent the request, in epoch ms; null if it does not say, or must not be corrected
 */
export function sdkTime(
  time: number | null,
  { sentAt, receivedAt }: { sentAt: number | null; receivedAt: number },
): number {
  const skew = sentAt === null ? 0 : receivedAt - sentAt
  const corrected = time === null || Math.abs(skew) <= SKEW_MS ? time : time + skew
  return corrected !== null && corrected >= 0 && corrected <= MAX_TIMESTAMP ? corrected : receivedAt
}
