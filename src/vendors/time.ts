/** How an input writes its times: ISO 8601, or seconds or milliseconds since 1970. */
export const TIME_FORMATS = ['iso', 's', 'ms'] as const
export type TimeFormat = (typeof TIME_FORMATS)[number]

const ISO_8601 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i
const DECIMAL = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i
const MINUTE_MS = 60_000

/**
 * A time as whole milliseconds since 1970; parts of a millisecond are cut off, except that seconds are rounded to the
 * nearest one. An ISO time without a zone is one of UTC.
 * @param text a number as it is spelled, or the content of a string
 * @returns null where the text is no such time
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
  // A month has no 31st day, a day no 25th hour: Date.UTC would go on into the next.
  const isReal = new Date(utc).toISOString().startsWith(`${text.slice(0, 10)}T`) && minute < 60 && second < 60
  return isReal && hour < 24 ? utc - zoneMinutes(match[8]) * MINUTE_MS : null
}

function zoneMinutes(zone = 'Z'): number {
  if (zone.toUpperCase() === 'Z') return 0
  const minutes = Number(zone.slice(1, 3)) * 60 + Number(zone.slice(3).replace(':', ''))
  return zone.startsWith('-') ? -minutes : minutes
}
