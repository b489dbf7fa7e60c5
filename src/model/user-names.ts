/**
 * Which names may stand for a user. Every call that makes, changes or links a user asks here, so that a rule that holds
 * for one holds for all.
 */

/** Whose event it is if it names neither a user nor a device. Nobody's profile. */
export const ANONYMOUS = '$anonymous'

/** What begins so is no user: groups have profiles of their own, and visitors without cookies have names of a day. */
const GROUP_PREFIX = '$group:'
const RESERVED_PREFIXES = [GROUP_PREFIX, '$visitor:']

/**
 * What clients send as an id when they have none, in lower case, without white space around it and without quotes. Events
 * are stored and counted under such a name as under any other one, but it links nobody: everybody who has it would become
 * one person.
 */
const PLACEHOLDERS = new Set([
  // Only white space, or nothing.
  '',
  // A missing value as languages print it: JavaScript, Python, Ruby, Swift, Go, C and Objective-C, Java, SQL.
  ...['undefined', 'null', 'none', 'nil', 'nan', 'void', '<nil>', '<null>', '(null)', '(nil)', '(none)', 'nullptr'],
  ...['<na>', '#n/a', '\\n'],
  ...['optional(nil)', 'optional.empty', 'nothing', 'undef'],
  // An empty or unnamed value: an object as text, and what is no text.
  ...['[object object]', '[object undefined]', '[object null]', '[object promise]', '[]', '{}', '()'],
  ...['-1', '-1.0', 'true', 'false', 'infinity', '-infinity', 'inf', '-inf'],
  // PostHog's ids that never merge persons (`isDistinctIdIllegal` in its person-utils.ts), which it also knows in quotes.
  ...['anonymous', 'guest', 'distinctid', 'distinct_id', 'id', 'not_authenticated', 'email'],
  // Values that Mixpanel refuses as a distinct_id ("Server-side events without a user" in its documentation), but for `anon`,
  // which some do call their visitor.
  ...['n/a', 'na', 'unknown', 'lmy47d'],
  // Values that Amplitude refuses as a user_id or device_id (its HTTP API), and what GA prints for an empty dimension.
  ...['unset', 'not set', '(not set)', 'not_set', 'notset'],
  // ANDROID_ID of a whole series of phones (Android issue 10603).
  '9774d56d682e549c',
  // Names of Segment's and RudderStack's fields in the place of their values, as PostHog has its own.
  ...['userid', 'user_id', 'anonymousid', 'anonymous_id', 'deviceid', 'device_id'],
  // Who is not logged in.
  ...['logged_out', 'loggedout', 'not_logged_in', 'unauthenticated', 'unidentified', 'not applicable', '-', '--'],
])

/**
 * A UUID or an advertising id of zeros, with or without hyphens and braces, which is what a device without one has; and an
 * IMEI or a MAC address of zeros.
 */
const ZEROS = /^(urn:uuid:)?[{(]?0{8}-?(0{4}-?){3}0{12}[)}]?$|^0{14,16}$|^(00[:-]?){5}00$/

/** However a number that is nothing is written; `0.0` comes of a column of ids in which some are missing. */
const ZERO = /^[+-]?0(\.0*)?(e[+-]?\d+)?$/
/** What Mixpanel puts before the id of a device, which may be none. */
const DEVICE_PREFIX = '$device:'

/** White space of any kind, and characters without a width, which look like none. */
const BLANKS = /[\s\p{Z}\p{Cc}\p{Cf}\u115f\u1160\u3164\uffa0\u2800]+/gu
/** In either kind of quotes, as a value that was made JSON once too often. */
const QUOTED = /^(["'`])(.*)\1$/su

/** SQL: whether no user can have the name in a column. */
export function reservedSql(column: string): string {
  const prefixes = RESERVED_PREFIXES.map((prefix) => `startsWith(${column}, '${prefix}')`)
  return `(${[`${column} = '${ANONYMOUS}'`, ...prefixes].join(' OR ')})`
}

/** Whether a name is nobody's: no user, alias or profile of a user can have it. */
export function isReserved(name: string): boolean {
  return name.startsWith('$') && (name === ANONYMOUS || RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix)))
}

/** The longest text that is compared with the placeholders, in UTF-16 units. */
const LONGEST = 255 * 2

/** Whether a name is what clients send when they have no id: the whole text, in any case. */
export function isPlaceholder(name: string): boolean {
  if (name.length > LONGEST) return false
  const text = stripQuotes(name)
  const id = text.startsWith(DEVICE_PREFIX) ? stripQuotes(text.slice(DEVICE_PREFIX.length)) : text
  return PLACEHOLDERS.has(id) || ZEROS.test(id) || ZERO.test(id)
}

/** Whether a name can be one of several of a user. */
export function canLink(name: string): boolean {
  return !isReserved(name) && !isPlaceholder(name)
}

/** Whether a name can be that of the profile of a group. */
export function isGroupName(name: string): boolean {
  return name.startsWith(GROUP_PREFIX)
}

/** The name of the profile of a group. */
export function groupName(...parts: readonly string[]): string {
  return `${GROUP_PREFIX}${parts.join(':')}`
}

/** As `stripBlanks`, and without quotes around it. */
function stripQuotes(name: string): string {
  let text = stripBlanks(name)
  for (let quoted = QUOTED.exec(text); quoted; quoted = QUOTED.exec(text)) text = stripBlanks(quoted[2] ?? '')
  return text
}

/** In lower case, without blanks at its ends, each run of others as one space. */
function stripBlanks(name: string): string {
  return name.replace(BLANKS, ' ').trim().toLowerCase()
}
