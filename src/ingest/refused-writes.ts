import { ApiError } from '../contract/errors.js'

/** Why a write was refused; after `internal` it may still be in the journal. */
export type RefusalCode = 'overloaded' | 'unavailable' | 'internal'

export function toRefusalCode(error: unknown): RefusalCode {
  const code = error instanceof ApiError ? error.code : null
  return code === 'overloaded' || code === 'unavailable' ? code : 'internal'
}

/** The end of the message of a refused write. The same refusal of a read does not have it. */
export const NOTHING_STORED = ' Nothing was stored.'

/**
 * Adds NOTHING_STORED to the error of a write that certainly stored nothing; returns any other error unchanged.
 * @param prefix names the lane, if there are several
 */
export function asRefusedWrite(error: unknown, prefix = ''): unknown {
  if (!(error instanceof ApiError) || toRefusalCode(error) === 'internal' || error.message.endsWith(NOTHING_STORED))
    return error
  return error.withMessage(`${prefix}${error.message}${NOTHING_STORED}`)
}
