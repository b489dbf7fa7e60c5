/** Rules for the names of users, which every call that creates, changes or links a user follows. */

/** The distinct_id of events without a user or device. It never gets a profile. */
export const ANONYMOUS = '$anonymous'

const GROUP_PREFIX = '$group:'
/** Prefix of the names that the service gives to daily visitors. */
export const DAILY_VISITOR_PREFIX = '$visitor:'
/** Why a request may not use a name with this prefix. */
export const DAILY_VISITOR_REASON = `must not begin with ${DAILY_VISITOR_PREFIX}, which the service makes for visitor=daily`
/** The data that tells the visitors of a day apart. */
export interface Visit {
  projectId: string
  /** that of the client */
  address: string
  userAgent: string
}

/**
 * Names with these prefixes are not users: groups have their own profiles, visitors without cookies a new name each
 * day.
 */
const RESERVED_PREFIXES = [GROUP_PREFIX, DAILY_VISITOR_PREFIX]

/**
 * Texts that clients send as an id when they have none, in lower case, without quotes or white space around them.
 * Events are stored and counted under a placeholder as under any other name, but it is never linked, because everyone
 * with that id would become one person.
 */
const PLACEHOLDERS = new Set([
  // Nothing, or only white space.
  '',
  // How languages print a missing value: JavaScript, Python, Ruby, Swift, Go, C and Objective-C, Java, SQL.
  ...['undefined', 'null', 'none', 'nil', 'nan', 'void', '<nil>', '<null>', '(null)', '(nil)', '(none)', 'nullptr'],
  ...['<na>', '#n/a', '\\n'],
  ...['optional(nil)', 'optional.empty', 'nothing', 'undef'],
  // Objects, promises and empty containers that were converted to strings.
  ...['[object object]', '[object undefined]', '[object null]', '[object promise]', '[]', '{}', '()'],
  ...['-1', '-1.0', 'true', 'false', 'infinity', '-infinity', 'inf', '-inf'],
  // Ids with which PostHog never merges persons, quoted or not (`isDistinctIdIllegal` in its person-utils.ts).
  ...['anonymous', 'guest', 'distinctid', 'distinct_id', 'id', 'not_authenticated', 'email'],
  // Values that Mixpanel refuses as a distinct_id ("Server-side events without a user" in its documentation), except
  // `anon`, which some use for a real visitor.
  ...['n/a', 'na', 'unknown', 'lmy47d'],
  // Values that Amplitude's HTTP API refuses as a user_id or device_id, and what GA prints for an empty dimension.
  ...['unset', 'not set', '(not set)', 'not_set', 'notset'],
  // The ANDROID_ID that a whole series of phones shares (Android issue 10603).
  '9774d56d682e549c',
  // The names of Segment's and RudderStack's fields instead of their values.
  ...['userid', 'user_id', 'anonymousid', 'anonymous_id', 'deviceid', 'device_id'],
  // Visitors who are not logged in.
  ...['logged_out', 'loggedout', 'not_logged_in', 'unauthenticated', 'unidentified', 'not applicable', '-', '--'],
])

/**
 * A UUID or advertising id of zeros, with or without hyphens and braces, which devices without one send; and an IMEI or
 * a MAC address of zeros.
 */
const ZEROS = /^(urn:uuid:)?[{(]?0{8}-?(0{4}-?){3}0{12}[)}]?$|^0{14,16}$|^(00[:-]?){5}00$/

/** Zero in any notation; `0.0` comes from a column of ids in which some are missing. */
const ZERO = /^[+-]?0(\.0*)?(e[+-]?\d+)?$/
/** Mixpanel's prefix of device ids; the id after it may be a placeholder. */
const DEVICE_PREFIX = '$device:'

/** White space of any kind, and characters without a width, which are invisible. */
const BLANKS = /[\s\p{Z}\p{Cc}\p{Cf}\u115f\u1160\u3164\uffa0\u2800]+/gu
/** In quotes, for example because the value was converted to JSON twice. */
const QUOTED = /^(["'`])(.*)\1$/su

/** SQL for `isReserved` of a column. */
export function reservedSql(column: string): string {
  const prefixes = RESERVED_PREFIXES.map((prefix) => `startsWith(${column}, '${prefix}')`)
  return `(${[`${column} = '${ANONYMOUS}'`, ...prefixes].join(' OR ')})`
}

/** SQL for `isGroupName` of a column. */
export function groupSql(column: string): string {
  return `startsWith(${column}, '${GROUP_PREFIX}')`
}

/** Whether no user, alias or profile of a user can have this name. */
export function isReserved(name: string): boolean {
  return name.startsWith('$') && (name === ANONYMOUS || RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix)))
}

/** Longer names, in UTF-16 units, are not compared with the placeholders. */
const LONGEST = 255 * 2

/** Whether the whole name is a placeholder for a missing id; case-insensitive. */
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

/** Whether the service has generated this name for a daily visitor. */
export function isDailyVisitor(name: string): boolean {
  return name.startsWith(DAILY_VISITOR_PREFIX)
}

/** Whether a profile of a group can have this name. */
export function isGroupName(name: string): boolean {
  return name.startsWith(GROUP_PREFIX)
}

/** The name of the profile of a group. */
export function groupName(...parts: readonly string[]): string {
  return `${GROUP_PREFIX}${parts.join(':')}`
}

/** Like `stripBlanks`, and also removes quotes around the name. */
function stripQuotes(name: string): string {
  let text = stripBlanks(name)
  for (let quoted = QUOTED.exec(text); quoted; quoted = QUOTED.exec(text)) text = stripBlanks(quoted[2] ?? '')
  return text
}

/** The name in lower case, without blanks at its ends, and with each other run of blanks as one space. */
function stripBlanks(name: string): string {
  return name.replace(BLANKS, ' ').trim().toLowerCase()
}
