/**
 * Limits of the contract. The clients check most of them too, so that a mistake fails without a
 * request.
 */

/** Events that a batch may hold. */
export const MAX_BATCH = 1000
/** Batches whose events are deleted together. */
export const MAX_DELETED_BATCHES = 1000
/** Maximum characters of an event's name, a distinct_id or a session_id. */
export const MAX_NAME = 255
export const NAME_RULE = `must be a string of 1 to ${MAX_NAME} characters`
/** Epoch milliseconds. */
export const MAX_TIMESTAMP = 9_999_999_999_999
export const TIMESTAMP_RULE = `must be a number of milliseconds since 1970, from 0 to ${MAX_TIMESTAMP}`
/** The days that ClickHouse's Date can hold. */
export const [FIRST_DAY, LAST_DAY] = ['1970-01-01', '2149-06-06']
/**
 * Epoch seconds of 1990 and 2100. Read as milliseconds, this range is a few weeks of 1970, so a timestamp in it is
 * probably in seconds by mistake.
 */
export const SECONDS_RANGE = { from: 631_152_000, to: 4_102_444_800 }
/** Rows of a page. */
export const MAX_PAGE = 10_000
/** Characters of the label of a key. */
export const MAX_KEY_LABEL = 100
/** Cards of a board. */
export const MAX_CARDS = 50
/** Maximum number of rows of an export. */
export const MAX_EXPORT = 1_000_000_000
/** Dead letters per page and per replay. */
export const MAX_DEAD_LETTERS = 100
/** Levels of objects and arrays in one value: the most that `MAX_PROPERTY_DEPTH` can be set to. */
export const MAX_SCAN_DEPTH = 256

/** Whether a number can be the time of an event, in epoch milliseconds. */
export function isTimestamp(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MAX_TIMESTAMP && !looksLikeSeconds(value)
}

/** Whether a time that should be in milliseconds is probably in seconds. */
export function looksLikeSeconds(ms: number): boolean {
  return ms >= SECONDS_RANGE.from && ms <= SECONDS_RANGE.to
}

/**
 * 1 to 255 characters, which are code points as in JSON Schema; a character outside the basic
 * plane has two units. A string with half a surrogate pair has no UTF-8 form, so it could not be
 * returned unchanged.
 */
export function isName(value: unknown): value is string {
  if (typeof value !== 'string' || value.length === 0 || !value.isWellFormed()) return false
  return value.length <= MAX_NAME || (value.length <= 2 * MAX_NAME && [...value].length <= MAX_NAME)
}

/** Control characters, and those that change the direction of what follows: lists are shown in terminals, too. */
export const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u

/** Names of ICU that are ambiguous, such as IST, and no zones of IANA. Intl takes them, and Temporal fails on them. */
const ICU_ZONES = /^(AC|AE|AG|AR|AS|BE|BS|CA|CN|CS|CT|EA|EC|IE|IS|JS|MI|NE|NS|PL|PN|PR|PS|SS|VS)T$/i

/** Whether there is an IANA time zone with this name. */
export function isTimeZone(value: unknown): value is string {
  // Offsets are zones to Intl, but not to this service.
  if (typeof value !== 'string' || /^[-+\d]/.test(value) || ICU_ZONES.test(value)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: value })
    return true
  } catch {
    return false
  }
}

/** Says what is wrong with a value that is not a name. */
export function describeNameFault(value: unknown): string {
  const isBroken = typeof value === 'string' && !value.isWellFormed()
  return isBroken ? 'must not contain unpaired surrogates' : NAME_RULE
}

/** Says what is wrong with a value that is not the time of an event. */
export function describeTimestampFault(value: unknown): string {
  const isSeconds = typeof value === 'number' && looksLikeSeconds(value)
  return isSeconds ? 'must be in milliseconds, but looks like seconds: multiply it by 1000' : TIMESTAMP_RULE
}
