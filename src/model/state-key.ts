import { hash } from 'node:crypto'

/** The kinds of values that change. Each has a current value, whereas an event never changes. */
export type StateKind = 'profiles' | 'sessions' | 'aliases'

/**
 * The key of a profile, session or alias in the journal: SHA-256 of kind, project and name, hexadecimal. It is a digest
 * because names are free-form and up to 255 characters long.
 */
export function toStateKey(kind: StateKind, projectId: string, name: string): string {
  return hash('sha256', JSON.stringify([kind, projectId, name]), 'hex')
}
