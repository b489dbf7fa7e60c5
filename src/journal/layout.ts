import { ApiError } from '../contract/errors.js'

/** The version of the layout that a store is created with. */
export const FIRST_LAYOUT = 1

/** Which processes a journal serves: those of one version of the layout. While the layout is changed, it takes no writes. */
export interface LayoutGuard {
  /** 0 before the journal belongs to any */
  version: number
  /** the version that the layout is being changed to; null if writes are allowed */
  closedFor: number | null
}

/** The journal belongs to another version of the layout than this process, or takes no writes while the layout is changed. */
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

/** Parses the guard that is in Redis: `<version>` or `<version>><closedFor>`; an empty text means FIRST_LAYOUT. */
export function parseGuard(text: string | null | undefined): LayoutGuard {
  if (!text) return { version: FIRST_LAYOUT, closedFor: null }
  const [version, closedFor] = text.split('>')
  return { version: Number(version), closedFor: closedFor === undefined ? null : Number(closedFor) }
}
