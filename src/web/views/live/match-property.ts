import { readMembers } from '../../lib/json-text.js'

/** A wish about one property. */
export interface PropertyFilter {
  /** at the top level, or a path with dots; empty wishes for nothing */
  name: string
  /** as people type it; empty if any will do */
  value: string
}

/** Numbers of more digits are not told apart as doubles. */
const MAX_DIGITS = 15

/** Whether properties are as wished: texts are compared without their quotes, numbers by their value. */
export function matchesProperty(properties: string, { name, value }: PropertyFilter): boolean {
  if (name === '') return true
  const found = findValue(properties, name)
  return found !== undefined && (value === '' || found === value || isSameValue(found, value))
}

function findValue(object: string, name: string): string | undefined {
  const members = readMembers(object)
  const own = members.get(name)
  if (own !== undefined) return own
  for (let dot = name.indexOf('.'); dot >= 0; dot = name.indexOf('.', dot + 1)) {
    const inner = members.get(name.slice(0, dot))
    const found = inner?.startsWith('{') ? findValue(inner, name.slice(dot + 1)) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

function isSameValue(found: string, value: string): boolean {
  if (found.startsWith('"')) return JSON.parse(found) === value
  return /^[-\d]/.test(found) && value.trim() !== '' && value.length <= MAX_DIGITS && Number(found) === Number(value)
}
