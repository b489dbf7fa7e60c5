import { hash } from 'node:crypto'

/** The kinds of values that change. Each has a current value, whereas an event never changes. */
export type StateKind = 'profiles' | 'sessions' | 'aliases'

/** The first hexadecimal digits of a key do not depend on its kind. They choose its lane, see `chooseLane`. */
const LANE_DIGITS = 8

/**
 * The key of a profile, session or alias in the journal: 32 bytes, hexadecimal. It is a digest (SHA-256) because names
 * are free-form and up to 255 characters long. All states of one name are in the same lane, so that a commit of one can
 * depend on another (see `Fence`).
 */
export function toStateKey(kind: StateKind, projectId: string, name: string): string {
  const lane = hash('sha256', JSON.stringify([projectId, name]), 'hex').slice(0, LANE_DIGITS)
  return lane + hash('sha256', JSON.stringify([kind, projectId, name]), 'hex').slice(LANE_DIGITS)
}
