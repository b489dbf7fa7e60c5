/**
 * Which names may stand for a user. Every call that makes, changes or links a user asks here, so that a rule that holds
 * for one holds for all.
 */

/** Whose event it is if it names neither a user nor a device. Nobody's profile. */
export const ANONYMOUS = '$anonymous'

/** What begins so is no user: groups have profiles of their own, and visitors without cookies have names of a day. */
const RESERVED_PREFIXES = ['$group:', '$visitor:']

/**
 * What clients send as an id when they have none, in lower case and trimmed. Events are stored and counted under such a
 * name as under any other one, but it links nobody: everybody who has it would become one person.
 */
const PLACEHOLDERS = new Set([
  '',
  'undefined',
  'null',
  'none',
  'nil',
  'nan',
  '[object object]',
  '0',
  '-1',
  'true',
  'false',
  'anonymous',
  'guest',
  'unknown',
  '00000000-0000-0000-0000-000000000000',
])

/** Whether a name is nobody's: no user, alias or profile of a user can have it. */
export function isReserved(name: string): boolean {
  return name === ANONYMOUS || RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix))
}

/** Whether a name is what clients send when they have no id. */
export function isPlaceholder(name: string): boolean {
  return PLACEHOLDERS.has(name.trim().toLowerCase())
}

/** The name of the profile of a group. */
export function groupName(...parts: readonly string[]): string {
  return `$group:${parts.join(':')}`
}
