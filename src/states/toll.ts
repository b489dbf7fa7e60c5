import { estimateProperties, type Properties } from '../model/properties.js'
import type { Change } from './state-store.js'

/** Counts the work that a call causes, if its key is public. */
export interface Toll {
  /** @throws ApiError `rate_limited` if the work must stop */
  touch(bytes: number): void
  /** Counts a profile or an alias that is made. @throws ApiError `rate_limited` */
  newUser(): void
}

type Stateful = { properties: Properties }

/**
 * A change of a profile or a session that counts the bytes of the value before and after it. A change that fails had the
 * value read all the same.
 */
export function tolled<Value extends Stateful>(change: Change<Value>, toll: Toll | null | undefined): Change<Value> {
  if (!toll) return change
  return (before) => {
    if (before) toll.touch(estimateProperties(before.properties))
    const after = change(before)
    if (after && after !== before) toll.touch(estimateProperties(after.properties))
    return after
  }
}

/** Like `tolled`, for a change that may make a new user. */
export function tolledUser<Value extends Stateful>(
  change: Change<Value>,
  toll: Toll | null | undefined,
): Change<Value> {
  if (!toll) return change
  let isCounted = false
  return tolled((before) => {
    const after = change(before)
    // A change that is tried again after a conflict makes no further user.
    if (!before && after && !isCounted) toll.newUser()
    isCounted ||= !before
    return after
  }, toll)
}
