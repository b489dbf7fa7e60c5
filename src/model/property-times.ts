import type { JsonValue } from '../json/value.js'
import type { Operation } from './profile-operations.js'
import { formatProperties, type Properties, readProperties } from './properties.js'

/**
 * When each property of a profile was last changed, so that a late change does not overwrite a newer one. Most profiles
 * have one time for all properties; only properties that differ have their own times.
 */
export interface PropertyTimes {
  /** epoch ms, for the properties without their own time */
  readonly base: number
  /**
   * Epoch ms, by name. Removed properties have one too; otherwise an older change would bring them back. Negative if
   * the last change added to the value (`$add`, `$append`): an older change of that kind still counts.
   */
  readonly own: ReadonlyMap<string, number>
}

/** Operators that add to a value or take from it, rather than replacing it. */
const ADDING: ReadonlySet<string> = new Set(['$add', '$append', '$prepend', '$union', '$remove'])

/** How many removed properties keep their times: the last ones, and only those with names of up to MAX_REMOVED_NAME. */
const MAX_REMOVED = 100
/** Maximum length of a removed property's name that keeps its time, in UTF-16 units. */
const MAX_REMOVED_NAME = 255

/** The times of properties that were all set at the same time. */
export function createTimes(base: number): PropertyTimes {
  return { base, own: new Map() }
}

/** Drops the operations that are older than the properties that they change. @param at epoch ms */
export function dropOutdated(
  operations: readonly Operation[],
  properties: Properties,
  times: PropertyTimes,
  at: number,
): readonly Operation[] {
  const isLate = ({ name, operator }: Operation) => {
    const last = findTime(name, properties, times)
    return last < 0 && ADDING.has(operator) ? false : at < Math.abs(last)
  }
  return operations.some(isLate) ? operations.filter((operation) => !isLate(operation)) : operations
}

/** When a property was last changed, with the sign that `own` has; 0 if it never existed. */
export function findTime(name: string, properties: Properties, { base, own }: PropertyTimes): number {
  return own.get(name) ?? (properties.has(name) ? base : 0)
}

/** The times after operations that were made at `at`, which turned the properties `before` into `after`. */
export function updateTimes(
  times: PropertyTimes,
  operations: readonly Operation[],
  { before, after, at }: { before: Properties; after: Properties; at: number },
): PropertyTimes {
  const own = new Map(times.own)
  let set = 0
  for (const { operator, name } of operations) {
    if (operator === '$set_once' && before.has(name)) continue
    const last = own.get(name)
    if (last === at) continue
    if (!ADDING.has(operator)) {
      own.set(name, at)
      set++
    } else if (after.has(name)) {
      own.set(name, -Math.max(at, Math.abs(last ?? 0)))
    }
  }
  // Most programs set all properties again each time, so none needs its own time.
  if (set >= after.size && [...after.keys()].every((name) => own.get(name) === at)) {
    return compactTimes(at, own, after)
  }
  return compactTimes(times.base, own, after)
}

/** The times of properties that replaced all others at `at`. */
export function replaceTimes(
  times: PropertyTimes,
  { before, after, at }: { before: Properties; after: Properties; at: number },
): PropertyTimes {
  const own = new Map(times.own)
  for (const name of before.keys()) own.set(name, at)
  for (const name of after.keys()) own.delete(name)
  return compactTimes(at, own, after)
}

/**
 * The times after some properties were copied from another profile.
 * @param times null if all were
 */
export function addTimes(
  times: PropertyTimes | null,
  others: PropertyTimes,
  { names, after }: { names: readonly string[]; after: Properties },
): PropertyTimes {
  const own = new Map(times?.own)
  for (const name of names) own.set(name, others.own.get(name) ?? others.base)
  return compactTimes(times?.base ?? others.base, own, after)
}

/** The times as if some properties had never existed. */
export function removeTimes({ base, own }: PropertyTimes, names: readonly string[]): PropertyTimes {
  const left = new Map(own)
  for (const name of names) left.delete(name)
  return { base, own: left }
}

/** Drops times that equal `base`, and times of properties that were removed long ago. */
function compactTimes(base: number, own: Map<string, number>, properties: Properties): PropertyTimes {
  const removed: [name: string, at: number][] = []
  for (const [name, at] of own) {
    if (!properties.has(name)) removed.push([name, at])
    else if (at === base) own.delete(name)
  }
  const kept = removed.filter(([name]) => name.length <= MAX_REMOVED_NAME).length
  if (kept < removed.length || removed.length > MAX_REMOVED) {
    removed.sort(([one, a], [other, b]) => rank(other, b) - rank(one, a))
    for (const [name] of removed.slice(Math.min(kept, MAX_REMOVED))) own.delete(name)
  }
  return { base, own }
}

function rank(name: string, at: number): number {
  return name.length > MAX_REMOVED_NAME ? -1 : Math.abs(at)
}

/** Formats the times as a JSON object. */
export function formatTimes({ base, own }: PropertyTimes): string {
  const texts = new Map(Array.from(own, ([name, at]) => [name, String(at)]))
  return `{"base":${base},"own":${formatProperties(texts)}}`
}

/** Reads the result of `formatTimes`. */
export function readTimes(times: JsonValue): PropertyTimes {
  const own = readProperties(times.member('own'))
  return { base: Number(times.member('base')?.text), own: new Map(Array.from(own, ([name, at]) => [name, Number(at)])) }
}

/** The bytes of the result of `formatTimes` that are about existing properties. */
export function measureTimes({ own }: PropertyTimes, properties: Properties): number {
  let bytes = 0
  for (const [name, at] of own) {
    if (properties.has(name)) bytes += Buffer.byteLength(JSON.stringify(name)) + String(at).length + 2
  }
  return bytes
}
