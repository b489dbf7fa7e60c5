import { ABORT, type RootDatabase } from 'lmdb'
import { ApiError } from '../../contract/errors.js'

/**
 * Executes the work in one transaction: all of it, or nothing if LMDB refuses a part, for example on a full disk. Reads
 * within the work see its writes. Resolves when they are on disk.
 * @throws ApiError `unavailable` if nothing was written
 */
export async function transact(root: RootDatabase, work: () => void): Promise<void> {
  let failure: unknown
  try {
    // Only a child transaction can be aborted halfway.
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
 * Like `transact`, but if that fails, frees disk space and tries again.
 * @param makeRoom returns whether it freed any
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

/** The error of a write that may or may not exist after a restart. */
export function inDoubt(cause: unknown): ApiError {
  const message = 'The journal could not be written. It is unknown whether the events are stored.'
  return new ApiError('internal', message, { cause })
}

/** The error of a write that certainly did not happen. */
export function unwritable(cause: unknown): ApiError {
  return new ApiError('unavailable', 'The journal cannot be written. Is its disk full?', { cause })
}
