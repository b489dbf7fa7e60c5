import type { ErrorDetail } from './errors.js'

/** The fields that hold properties, and how many levels of objects surround them. */
const HOLDERS: [field: string, around: number][] = [
  ['properties', 0],
  // The operators are a level of their own.
  ['operations', 1],
]

/**
 * Finds the properties of a parsed body that have more than `max` levels of objects and arrays,
 * their own included.
 * @param fields the fields that the call knows; unknown ones are ignored, so they may be of any
 * depth
 */
export function deepProperties(body: unknown, fields: object, max: number): ErrorDetail[] {
  if (!isObject(body)) return []
  const found: ErrorDetail[] = []
  const check = (path: string, value: unknown, levels: number) => {
    if (isDeeper(value, levels)) found.push({ path, message: `must not be nested more than ${max} levels deep` })
  }
  for (const [field, around] of HOLDERS) {
    if (field in fields) check(`/${field}`, body[field], max + around)
  }
  if ('events' in fields && Array.isArray(body.events)) {
    for (const [i, event] of body.events.entries()) {
      if (isObject(event)) check(`/events/${i}/properties`, event.properties, max)
    }
  }
  return found
}

/** Recurses no deeper than `levels`. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  const values: unknown[] = Array.isArray(value) ? value : Object.values(value)
  return values.some((inner) => isDeeper(inner, levels - 1))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
