import type { ErrorDetail } from './errors.js'
import { isObject } from './read-fields.js'

/** The operators that put their value into an array, which adds a level. */
const INTO_ARRAYS = ['$append', '$prepend']

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
  if ('properties' in fields) check('/properties', body.properties, max)
  if ('operations' in fields && isObject(body.operations)) {
    for (const [operator, values] of Object.entries(body.operations))
      check('/operations', values, INTO_ARRAYS.includes(operator) ? max - 1 : max)
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
