import { estimateProperties, type Properties } from '../model/properties.js'
import type { Change } from './state-store.js'

/** Counts the work that a call causes, if its key is public. */
export interface Toll {
  /** @throws ApiError `rate_limited` if the work must stop */
  touch(bytes: number): void
  /** Counts a profile or an alias that is created. @throws ApiError `rate_limited` */
  newUser(): void
}

type Stateful = { properties: Properties }

/**
 * Wraps a change of a profile or a session so that the bytes of the value before and after it are counted. A change
 * that fails still counts the value that was read.
 */
export function withToll<Value extends Stateful>(change: Change<Value>, toll: Toll | null | undefined): Change<Value> {
  if (!toll) return change
  return (before) => {
    if (before) toll.touch(estimateProperties(before.properties))
    const after = change(before)
    if (after && after !== before) toll.touch(estimateProperties(after.properties))
    return after
  }
}

/** Like `withToll`, for a change that may create a user. */
export function withUserToll<Value extends Stateful>(
  change: Change<Value>,
  toll: Toll | null | undefined,
): Change<Value> {
  if (!toll) return change
  let isCounted = false
  return withToll((before) => {
    const after = change(before)
    // A change that is retried after a conflict does not create a second user.
    if (!before && after && !isCounted) toll.newUser()
    isCounted ||= !before
    return after
  }, toll)
}
