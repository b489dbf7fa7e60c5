import { readElements, readMembers } from '../../lib/json-text.js'

/** A filter by one property. */
export interface PropertyFilter {
  /** a top-level name or a dotted path; empty matches all */
  name: string
  /** as typed; empty matches any value */
  value: string
}

/** Numbers with more digits are not distinguishable as doubles. */
const MAX_DIGITS = 15
const NULL = 'null'

/**
 * Whether properties match a filter. Strings are compared without quotes, numbers by value. As in questions, null is the
 * same as not set, and an array matches if one of its elements does.
 */
export function matchesProperty(properties: string, { name, value }: PropertyFilter): boolean {
  if (name === '') return true
  const actual = findValue(properties, name)
  if (actual === undefined) return value === NULL
  const elements = actual.startsWith('[') ? readElements(actual).filter((element) => element !== NULL) : []
  return value === '' || [actual, ...elements].some((one) => one === value || isSameValue(one, value))
}

/** The value of a name, or of a path of names; undefined if it is not set. */
function findValue(object: string, name: string): string | undefined {
  const members = readMembers(object)
  const own = members.get(name)
  if (own !== undefined && own !== NULL) return own
  for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1)) {
    const inner = members.get(name.slice(0, dot))
    const actual = inner?.startsWith('{') ? findValue(inner, name.slice(dot + 1)) : undefined
    if (actual !== undefined) return actual
  }
  return undefined
}

function isSameValue(actual: string, value: string): boolean {
  if (actual.startsWith('"')) return JSON.parse(actual) === value
  return /^[-\d]/.test(actual) && value.trim() !== '' && value.length <= MAX_DIGITS && Number(actual) === Number(value)
}
