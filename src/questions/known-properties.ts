import type { Scalar } from '../contract/questions.js'
import type { PropertyType } from '../contract/responses.js'
import { createNearestFinder } from '../lib/nearest.js'
import { unmarkName } from '../store/json-sql.js'
import { MAX_DEPTH, MAX_MEMBERS, MAX_PROPERTIES, type PropertyRow } from './names.js'
import type { ComparedValue, PropertyUse } from './names-used.js'

/** A property of sampled events or profiles. */
interface KnownProperty {
  names: readonly string[]
  types: ReadonlySet<PropertyType>
  /** all its values as JSON; null if they are not all known */
  values: ReadonlySet<string> | null
  /** how many names its objects contain */
  members: number
}

/** The properties of one or several samples. */
export interface KnownProperties {
  /** by their names, as JSON; the most frequent first */
  byPath: ReadonlyMap<string, KnownProperty>
  /** how many events or profiles were sampled */
  sampled: number
  /** whether all names at the top level are known */
  hasAllOuter: boolean
  /** whether all names within them are known, too, except those that are too deep or too many to list */
  hasAllInner: boolean
}

/** A mistake in the use of a property. */
export type PropertyFault =
  | { kind: 'absent' }
  | { kind: 'types'; types: readonly PropertyType[] }
  | { kind: 'value'; compared: ComparedValue; suggestion?: Scalar }

const NONE: KnownProperties = { byPath: new Map(), sampled: 0, hasAllOuter: true, hasAllInner: true }
const parsed = new WeakMap<readonly PropertyRow[], KnownProperties>()

/** The properties in a sample. */
export function toKnownProperties(rows: readonly PropertyRow[]): KnownProperties {
  const known = parsed.get(rows) ?? parseRows(rows)
  parsed.set(rows, known)
  return known
}

function parseRows(rows: readonly PropertyRow[]): KnownProperties {
  const byPath = new Map<string, KnownProperty & { types: Set<PropertyType>; values: Set<string> | null }>()
  let sampled = 0
  for (const { path, type, count, examples } of rows) {
    if (type === 'none') {
      sampled = Number(count)
      continue
    }
    const names = path.map(unmarkName)
    const key = JSON.stringify(names)
    const property = byPath.get(key) ?? { names, types: new Set(), values: new Set(), members: 0 }
    byPath.set(key, property)
    property.types.add(type)
    const listed = examples.reduce((sum, [times]) => sum + Number(times), 0)
    // An array matches if one of its members does.
    if (listed < Number(count) || type === 'array') property.values = null
    for (const [, token] of examples) property.values?.add(JSON.stringify(JSON.parse(token)))
  }
  for (const { names } of byPath.values()) {
    const parent = byPath.get(JSON.stringify(names.slice(0, -1)))
    if (parent) parent.members++
  }
  const isFull = rows.length >= MAX_PROPERTIES
  const hasAllOuter = !isFull || rows.some(({ path }) => path.length > 1)
  return { byPath, sampled, hasAllOuter, hasAllInner: !isFull }
}

/** The properties of all samples together. */
export function mergeProperties(samples: readonly KnownProperties[]): KnownProperties {
  const [first = NONE, ...rest] = samples
  return rest.reduce((all, one) => {
    const byPath = new Map(all.byPath)
    for (const [key, property] of one.byPath) {
      const known = byPath.get(key)
      byPath.set(key, known ? mergeProperty(known, property) : property)
    }
    return {
      byPath,
      sampled: all.sampled + one.sampled,
      hasAllOuter: all.hasAllOuter && one.hasAllOuter,
      hasAllInner: all.hasAllInner && one.hasAllInner,
    }
  }, first)
}

function mergeProperty(a: KnownProperty, b: KnownProperty): KnownProperty {
  const values = a.values && b.values && new Set([...a.values, ...b.values])
  const types = new Set([...a.types, ...b.types])
  return { names: a.names, types, values, members: Math.max(a.members, b.members) }
}

/** Finds mistakes in the use of a property, assuming that the samples are representative. */
export function findPropertyFaults(
  { names, types, values }: Pick<PropertyUse, 'names' | 'types' | 'values'>,
  known: KnownProperties,
): PropertyFault[] {
  const property = known.byPath.get(JSON.stringify(names))
  if (!property) return isAllKnown(names, known) ? [{ kind: 'absent' }] : []
  if (types !== null && !types.some((type) => property.types.has(type))) {
    return [{ kind: 'types', types: [...property.types] }]
  }
  return values.flatMap((compared): PropertyFault[] => {
    const { value } = compared
    if (value === null || mayHave(property, value)) return []
    const suggestion = suggestValue(property, value)
    return [{ kind: 'value', compared, ...(suggestion !== undefined && { suggestion }) }]
  })
}

/** Whether the name would be known if the samples had it. */
function isAllKnown(names: readonly string[], { byPath, hasAllOuter, hasAllInner }: KnownProperties): boolean {
  for (let depth = 1; depth < names.length; depth++) {
    const parent = byPath.get(JSON.stringify(names.slice(0, depth)))
    if (!parent) return depth === 1 ? hasAllOuter : hasAllInner
    if (parent.members >= MAX_MEMBERS || depth === MAX_DEPTH) return false
  }
  return names.length === 1 ? hasAllOuter : hasAllInner
}

function mayHave({ types, values }: KnownProperty, value: Scalar): boolean {
  if (values) return values.has(JSON.stringify(value))
  return types.has('array') || types.has(typeof value as PropertyType)
}

/** A value that is spelled nearly like another one, such as `pro` for `Pro`, or 5 for `"5"`. */
function suggestValue({ types, values }: KnownProperty, value: Scalar): Scalar | undefined {
  if (!values) {
    const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN
    if (types.has('number') && Number.isFinite(number)) return number
    return types.has('string') && value !== null && typeof value !== 'string' ? String(value) : undefined
  }
  const all = [...values].map((json) => JSON.parse(json) as unknown)
  const scalars = all.filter((one) => one !== null && typeof one !== 'object') as Scalar[]
  const same = scalars.find((one) => String(one) === String(value))
  if (same !== undefined || typeof value !== 'string') return same
  const texts = scalars.filter((one) => typeof one === 'string')
  return createNearestFinder(texts)(value)
}

/**
 * The names that were probably meant: spelled nearly like the given ones, with other dots, or within an object whose
 * name was left out.
 */
export function findNearestNames(
  names: readonly string[],
  { byPath }: Pick<KnownProperties, 'byPath'>,
): readonly string[] | undefined {
  const all = [...byPath.values()].map((property) => property.names)
  const given = names.join('.')
  const same = findNearest(given, all, (one) => one.join('.'))
  if (same || names.length > 1) return same
  const inner = all.filter((one) => one.length > 1)
  return findNearest(given, inner, (one) => one.at(-1) ?? '')
}

function findNearest(
  given: string,
  all: readonly (readonly string[])[],
  format: (names: readonly string[]) => string,
): readonly string[] | undefined {
  const byText = new Map<string, readonly string[]>()
  for (const names of all) if (!byText.has(format(names))) byText.set(format(names), names)
  return byText.get(given) ?? byText.get(createNearestFinder(byText.keys())(given) ?? '')
}
