import { DAY_MS, HOUR_MS } from '../contract/durations.js'
import { MAX_KEY_LABEL, UNPRINTABLE } from '../contract/limits.js'
import { isOrigin, originOf } from '../lib/origin.js'
import { isBrowserKey, type LabelledGrant } from './keys.js'

/** Origins of a key. */
const MAX_ORIGINS = 50
/**
 * Maximum number of keys of a project that are valid or were created in the last day: every process reads them every
 * few seconds.
 */
export const MAX_KEYS = 200
/** How long a replaced key may stay valid, ms. */
const MAX_GRACE_MS = 365 * DAY_MS

const UNIT_MS: Record<string, number> = { s: 1_000, m: 60_000, h: HOUR_MS, d: DAY_MS }

export const GRACE_MESSAGE = 'must be a duration such as 30m, 24h or 7d, at most 365d, or 0'

/** What is wrong with a field of a key; `index` is the index of the invalid origin. */
export interface KeyFault {
  field: 'label' | 'origins' | 'events_only'
  index?: number
  /** the predicate of a sentence about the field */
  message: string
}

/** Finds what a key of this kind cannot have. */
export function findKeyFaults({ kind, label, origins, eventsOnly }: Omit<LabelledGrant, 'projectId'>): KeyFault[] {
  const faults: KeyFault[] = []
  if ([...label].length > MAX_KEY_LABEL || UNPRINTABLE.test(label)) {
    faults.push({
      field: 'label',
      message: `must have at most ${MAX_KEY_LABEL} characters, without control characters`,
    })
  }
  if (origins.length > 0 && !isBrowserKey(kind)) {
    faults.push({ field: 'origins', message: 'is only for write and public keys, which are in pages' })
  }
  if (origins.length > MAX_ORIGINS) {
    faults.push({ field: 'origins', message: `must have at most ${MAX_ORIGINS} origins` })
  }
  const index = origins.findIndex((text) => !isOrigin(text))
  if (index >= 0) {
    const meant = originOf(origins[index] ?? '') ?? 'https://shop.example'
    const message = `must be an origin as browsers send it, such as ${meant}`
    faults.push({ field: 'origins', index, message })
  }
  if (eventsOnly && kind !== 'write') faults.push({ field: 'events_only', message: 'is only for write keys' })
  return faults
}

/** Normalizes a key's fields: trims the label, and sorts the origins without duplicates. */
export function tidyKey<T extends Pick<LabelledGrant, 'label' | 'origins'>>(key: T): T {
  return { ...key, label: key.label.trim(), origins: [...new Set(key.origins)].sort() }
}

/** Parses how long a replaced key stays valid. @returns ms; null if the text is no such duration */
export function parseGrace(text: string): number | null {
  if (text === '0') return 0
  const [, count, unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  if (count === undefined) return null
  const ms = Number(count) * (UNIT_MS[unit] ?? 0)
  return ms <= MAX_GRACE_MS ? ms : null
}
