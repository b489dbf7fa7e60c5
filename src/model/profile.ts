import { applyTo, type Operation } from './profile-operations.js'
import { formatProperties, type Properties, parseProperties } from './properties.js'

/** What is known of one user. Times are epoch milliseconds; `updatedAt` never goes back, even if the clock does. */
export interface Profile {
  properties: Properties
  createdAt: number
  updatedAt: number
}

/**
 * Creates the profile, or overwrites its properties. With `properties` null it only makes sure that the profile exists:
 * one that does is given back as it is, the very same object.
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

/** The profile as one JSON text for a store that need not look into it; the properties are in it verbatim. */
export function formatProfile({ properties, createdAt, updatedAt }: Profile): string {
  return `{"createdAt":${createdAt},"updatedAt":${updatedAt},"properties":${formatProperties(properties)}}`
}

/** Reads what `formatProfile` wrote, and only that: the text is not checked. */
export function parseProfile(state: string): Profile {
  // Not JSON.parse of the whole, which takes 0.3 us for each of the properties.
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
