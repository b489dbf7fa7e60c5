/** How an input writes its times: as ISO 8601, or as seconds or milliseconds since 1970. */
export const TIME_FORMATS = ['iso', 's', 'ms'] as const
export type TimeFormat = (typeof TIME_FORMATS)[number]

const ISO_8601 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i
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
