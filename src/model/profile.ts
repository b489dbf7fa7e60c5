import { readText } from '../json/value.js'
import { changeProperties, type Operation } from './profile-operations.js'
import { formatProperties, measureProperties, type Properties, readProperties } from './properties.js'
import {
  addTimes,
  createTimes,
  dropOutdated,
  findTime,
  formatTimes,
  measureTimes,
  type PropertyTimes,
  readTimes,
  removeTimes,
  replaceTimes,
  updateTimes,
} from './property-times.js'

/** The profile of one user. Times are epoch milliseconds; `updatedAt` never decreases, even if the clock does. */
export interface Profile {
  properties: Properties
  /** when each property was changed; absent if all were set at `updatedAt` */
  times?: PropertyTimes
  createdAt: number
  updatedAt: number
  /** whether a user was identified by this name; kept until the profile is deleted */
  isIdentified?: boolean
  /** whether all of it came from other names of the user; it is removed when they are unlinked */
  isDerived?: boolean
}

/** The contribution of another name's profile to the user's profile. */
export type GivenProperties = Pick<Profile, 'properties' | 'times' | 'updatedAt'>

/**
 * Creates the profile, or replaces its properties, and marks its user as identified. If `properties` is null, only
 * ensures that the profile exists and is marked; a profile that is marked already is returned as the same object.
 */
export function identify(profile: Profile | null, properties: Properties | null, now: number): Profile {
  if (profile && !properties) return profile.isIdentified && !profile.isDerived ? profile : markIdentified(profile)
  return markIdentified(replaceProperties(profile, new Map(properties), now))
}

/** Removes all properties, or creates the profile if it is missing. @param at see `applyOperations` */
export function clearProperties(profile: Profile | null, now: number, at?: number): Profile {
  if (!profile || at === undefined) return replaceProperties(profile, new Map(), now)
  const operations = [...profile.properties.keys()].map((name) => ({ operator: '$unset', name, operand: '' }) as const)
  return applyOperations(profile, operations, now, at)
}

/** Makes sure that the profile exists, without marking its user as identified. */
export function ensureProfile(profile: Profile | null, now: number): Profile {
  if (profile && !profile.isDerived) return profile
  return revise(profile, profile?.properties ?? new Map(), profile ? toTimes(profile) : createTimes(now), now)
}

/**
 * Returns the profile after all operations; creates it if it is missing. If an operation fails, none is applied. The
 * given profile is never modified.
 * @param at when the change was made, epoch ms; default: now. Properties that were changed later keep their values, and
 *   a profile that needs no change is returned as the same object.
 * @throws ApiError see `changeProperties`
 */
export function applyOperations(
  profile: Profile | null,
  operations: readonly Operation[],
  now: number,
  at?: number,
): Profile {
  const before = profile?.properties ?? new Map<string, string>()
  const time = Math.min(at ?? now, now)
  const times = profile ? toTimes(profile) : createTimes(time)
  const current = at === undefined ? operations : dropOutdated(operations, before, times, time)
  if (profile && at !== undefined && current.length === 0) return profile
  const after = changeProperties(before, current)
  return revise(profile, after, updateTimes(times, current, { before, after, at: time }), now)
}

/** The bytes of a profile that count towards its limit: properties and their times. */
export function measureProfile({ properties, times }: Profile): number {
  return measureProperties(properties) + (times ? measureTimes(times, properties) : 0)
}

/** The profile as a JSON string, which the journal treats as opaque; contains the properties verbatim. */
export function formatProfile({ properties, times, createdAt, updatedAt, isIdentified, isDerived }: Profile): string {
  const marks = `${isIdentified ? '"isIdentified":true,' : ''}${isDerived ? '"isDerived":true,' : ''}`
  const own = times ? `"times":${formatTimes(times)},` : ''
  return `{"createdAt":${createdAt},"updatedAt":${updatedAt},${marks}${own}"properties":${formatProperties(properties)}}`
}

/** Parses the result of `formatProfile`; the text is not validated. */
export function parseProfile(state: string): Profile {
  const parts = readText(state)
  const times = parts.member('times')
  return {
    properties: readProperties(parts.member('properties')),
    ...(times && { times: readTimes(times) }),
    createdAt: Number(parts.member('createdAt')?.text),
    updatedAt: Number(parts.member('updatedAt')?.text),
    ...(parts.member('isIdentified') && { isIdentified: true }),
    ...(parts.member('isDerived') && { isDerived: true }),
  }
}

/**
 * Adds the properties of another name's profile that the user's profile does not have. A profile that has only such
 * properties is derived.
 */
export function giveProperties(profile: Profile | null, other: GivenProperties, now: number): Profile {
  const missing = [...other.properties].filter(([name]) => !profile?.properties.has(name))
  if (profile && missing.length === 0) return profile
  const after = new Map([...(profile?.properties ?? []), ...missing])
  const names = missing.map(([name]) => name)
  const times = addTimes(profile ? toTimes(profile) : null, toTimes(other), { names, after })
  const given = revise(profile, after, times, now)
  return profile && !profile.isDerived ? given : { ...given, isDerived: true }
}

/**
 * Removes the properties that still have the value and the time that the other name gave them: nobody has set them
 * since.
 */
export function takeAwayProperties(profile: Profile, { properties, ...other }: GivenProperties, now: number): Profile {
  const [times, given] = [toTimes(profile), toTimes(other)]
  const isGiven = (name: string, value: string) =>
    properties.get(name) === value && findTime(name, profile.properties, times) === findTime(name, properties, given)
  const left = new Map([...profile.properties].filter(([name, value]) => !isGiven(name, value)))
  if (left.size === profile.properties.size) return profile
  const names = [...profile.properties.keys()].filter((name) => !left.has(name))
  const revised = revise(profile, left, removeTimes(times, names), now)
  return { ...revised, ...(profile.isDerived && { isDerived: true }) }
}

function toTimes({ times, updatedAt }: Pick<Profile, 'times' | 'updatedAt'>): PropertyTimes {
  return times ?? createTimes(updatedAt)
}

function replaceProperties(profile: Profile | null, after: Properties, now: number): Profile {
  if (!profile) return revise(null, after, createTimes(now), now)
  const times = replaceTimes(toTimes(profile), { before: profile.properties, after, at: now })
  return revise(profile, after, times, now)
}

function revise(profile: Profile | null, properties: Properties, times: PropertyTimes, now: number): Profile {
  const updatedAt = profile ? Math.max(profile.updatedAt, now) : now
  const areUsual = times.base === updatedAt && times.own.size === 0
  return {
    properties,
    ...(!areUsual && { times }),
    createdAt: profile?.createdAt ?? now,
    updatedAt,
    ...(profile?.isIdentified && { isIdentified: true }),
  }
}

function markIdentified({ isDerived: _, ...profile }: Profile): Profile {
  return { ...profile, isIdentified: true }
}
