import { applyTo, type Operation } from './profile-operations.js'
import { formatProperties, type Properties, parseProperties } from './properties.js'

/** The profile of one user. Times are epoch milliseconds; `updatedAt` never decreases, even if the clock does. */
export interface Profile {
  properties: Properties
  createdAt: number
  updatedAt: number
}

/**
 * Creates the profile, or replaces its properties. With `properties` null it only ensures that the profile exists, and
 * returns an existing one as the same object.
 */
export function identify(profile: Profile | null, properties: Properties | null, now: number): Profile {
  if (profile && !properties) return profile
  return revise(profile, new Map(properties), now)
}

/**
 * The profile after all operations, created where it is missing. Where an operation fails, none is applied: the given
 * profile is never modified.
 * @throws ApiError as `applyTo` does
 */
export function applyOperations(profile: Profile | null, operations: readonly Operation[], now: number): Profile {
  return revise(profile, applyTo(profile?.properties, operations), now)
}

/** The profile as one JSON text, which the journal treats as opaque; contains the properties verbatim. */
export function formatProfile({ properties, createdAt, updatedAt }: Profile): string {
  return `{"createdAt":${createdAt},"updatedAt":${updatedAt},"properties":${formatProperties(properties)}}`
}

/** Parses the result of `formatProfile`; the text is not validated. */
export function parseProfile(state: string): Profile {
  // Not JSON.parse of the whole text, which takes 0.3 µs for each property.
  const parts = parseProperties(state)
  return {
    properties: parseProperties(parts.get('properties') ?? ''),
    createdAt: Number(parts.get('createdAt')),
    updatedAt: Number(parts.get('updatedAt')),
  }
}

function revise(profile: Profile | null, properties: Properties, now: number): Profile {
  if (!profile) return { properties, createdAt: now, updatedAt: now }
  return { properties, createdAt: profile.createdAt, updatedAt: Math.max(profile.updatedAt, now) }
}
