import { ABORT, type RootDatabase } from 'lmdb'
import { ApiError } from '../../contract/errors.js'

/**
 * Executes all of the work in one transaction, or nothing of it where LMDB refuses a part, as on a full disk. Reads within
 * the work see its writes. Resolves when they are on disk.
 * @throws ApiError `unavailable` if nothing was written
 */
export async function transact(root: RootDatabase, work: () => void): Promise<void> {
  let failure: unknown
  try {
    // Only a child transaction can be aborted half-way.
    await root.childTransaction(() => {
      try {
        work()
      } catch (error) {
        failure = error
        return ABORT
      }
    })
  } catch (error) {
    failure = error
    // lmdb rejects a second promise for the same failure; unhandled, it would end the process.
    if (error instanceof Error && 'commitError' in error) Promise.resolve(error.commitError).catch(() => undefined)
  }
  if (failure === undefined) return
  throw unwritable(failure)
}

/**
 * As `transact`; if that fails, once more with more room on the disk.
 * @param makeRoom says whether there is more
 */
export async function transactWithRoom(
  root: RootDatabase,
  work: () => void,
  makeRoom: () => Promise<boolean>,
): Promise<void> {
  try {
    await transact(root, work)
  } catch (error) {
    if (!(await makeRoom())) throw error
    await transact(root, work)
  }
}

/** For a write of which nobody knows whether it will be there after a restart. */
export function inDoubt(cause: unknown): ApiError {
  const message = 'The journal could not be written. After a restart the events may be there, or not.'
  return new ApiError('internal', message, { cause })
}

export function unwritable(cause: unknown): ApiError {
  return new ApiError('unavailable', 'The journal cannot be written. Is its disk full?', { cause })
}
