import { ApiError } from '../contract/errors.js'

/** The version of a store that is one lane on one shard, or that was made with what it has. */
export const FIRST_LAYOUT = 1

/** What a journal lets in: processes of one version of the layout, and, while another one is made, no writes of theirs. */
export interface LayoutGuard {
  /** 0 before the journal belongs to any */
  version: number
  /** the version that is being made; null where writes are let in */
  closedFor: number | null
}

/** The journal belongs to another version of the layout than this process, or takes no writes as the next one is made. */
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

/** The guard as Redis has it: `<version>`, or `<version>><closedFor>`; nothing: FIRST_LAYOUT. */
export function parseGuard(text: string | null | undefined): LayoutGuard {
  if (!text) return { version: FIRST_LAYOUT, closedFor: null }
  const [version, closedFor] = text.split('>')
  return { version: Number(version), closedFor: closedFor === undefined ? null : Number(closedFor) }
}
