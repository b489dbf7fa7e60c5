import type { PropertyName, PropertyType } from '../../contract/responses.js'
import { readMembers } from './json-text.js'

/** A property with its path of names from the top level. */
export interface ListedProperty {
  names: string[]
  /** share of the events that have it, 0 to 1 */
  share: number
  /** the most frequent first */
  types: PropertyType[]
}

/** How many levels of objects in profiles are listed. */
const MAX_DEPTH = 4

/** Properties and those within them, each after its parent. */
export function flattenProperties(
  properties: readonly Omit<PropertyName, 'examples'>[],
  parents: readonly string[] = [],
): ListedProperty[] {
  return properties.flatMap(({ property, share, types, properties: within = [] }) => {
    const names = [...parents, property]
    return [{ names, share, types: types.map(({ type }) => type) }, ...flattenProperties(within, names)]
  })
}

/** The properties of several lists, each once. */
export function mergeProperties(lists: readonly ListedProperty[][]): ListedProperty[] {
  const merged = new Map<string, ListedProperty>()
  for (const property of lists.flat()) {
    const key = JSON.stringify(property.names)
    const known = merged.get(key) ?? property
    const share = Math.max(known.share, property.share)
    merged.set(key, { ...known, share, types: [...new Set([...known.types, ...property.types])] })
  }
  return [...merged.values()]
}

/** The properties of profiles, by name. */
export function listUserProperties(profiles: readonly object[]): ListedProperty[] {
  const list = (objects: readonly object[], parents: string[]): ListedProperty[] => {
    const names = [...new Set(objects.flatMap((object) => Object.keys(object)))].sort()
    return names.flatMap((name) => {
      const values = objects.map((object) => (Object.hasOwn(object, name) ? object[name as never] : null) as unknown)
      const set = values.filter((value) => value !== null)
      if (set.length === 0) return []
      const path = [...parents, name]
      const property = { names: path, share: set.length / profiles.length, types: [...new Set(set.map(findType))] }
      const inner = path.length < MAX_DEPTH ? set.filter((value) => findType(value) === 'object') : []
      return [property, ...list(inner as object[], path)]
    })
  }
  return list(profiles, [])
}

/** The JSON of the values that objects have at a path of names; those without one are left out. */
export function listValuesAt(objects: readonly string[], [name, ...inner]: readonly string[]): string[] {
  if (name === undefined) return [...objects]
  const values = objects.flatMap((object) => (object.startsWith('{') ? (readMembers(object).get(name) ?? []) : []))
  return listValuesAt(values, inner)
}

function findType(value: unknown): PropertyType {
  return Array.isArray(value) ? 'array' : (typeof value as PropertyType)
}
