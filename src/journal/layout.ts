import { ApiError } from '../contract/errors.js'

/** The version of the layout that a store is created with. */
export const FIRST_LAYOUT = 1

/** Which version of the layout a journal serves. While the layout is being changed, it takes no writes. */
export interface LayoutGuard {
  /** 0 before the journal belongs to a layout */
  version: number
  /** the version that the layout is being changed to; null if writes are allowed */
  closedFor: number | null
}

/**
 * The journal belongs to another version of the layout than this process, or takes no writes while the layout is
 * changed.
 */
export class LayoutError extends ApiError {
  constructor({ closedFor }: LayoutGuard) {
    super(
      'unavailable',
      closedFor === null
        ? 'The layout of the store was changed. Restart this process with the new settings.'
        : 'The layout of the store is being changed. Try again later.',
    )
  }
}

/** Parses the guard as Redis has it: `<version>` or `<version>><closedFor>`; empty means FIRST_LAYOUT. */
export function parseGuard(text: string | null | undefined): LayoutGuard {
  if (!text) return { version: FIRST_LAYOUT, closedFor: null }
  const [version, closedFor] = text.split('>')
  return { version: Number(version), closedFor: closedFor === undefined ? null : Number(closedFor) }
}
