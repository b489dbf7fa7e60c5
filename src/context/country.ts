import { getAllTimezones } from 'countries-and-timezones'

/** By IANA zone. Zones without a slash, such as `CET`, name no place. */
const COUNTRIES = new Map(
  Object.values(getAllTimezones({ deprecated: true })).flatMap(({ name, countries: [first] }) =>
    first && name.includes('/') ? [[name as string, first as string] as const] : [],
  ),
)

/** The country in which most of a time zone's people live; undefined if there is none. @param zone IANA */
export function findCountryOfZone(zone: string): string | undefined {
  return COUNTRIES.get(zone)
}

/** Codes that proxies write for an unknown country, or for Tor. */
const UNKNOWN = new Set(['XX', 'T1', 'ZZ'])

/** An ISO 3166-1 code in capital letters; undefined if the value is not one. */
export function readCountryCode(value: unknown): string | undefined {
  if (typeof value !== 'string' || !/^[a-z]{2}$/i.test(value)) return undefined
  const code = value.toUpperCase()
  return UNKNOWN.has(code) ? undefined : code
}
