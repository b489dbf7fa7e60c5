import { closeSync, fstatSync, openSync, rmSync, statSync } from 'node:fs'

export interface FileLock {
  /** Releases the lock and removes the file. */
  release(): void
}

const NO_LOCK: FileLock = { release: () => undefined }

/** Files cannot be locked: the optional package for it is not installed, or the file system has no locks. */
export class NoLocksError extends Error {
  override readonly name = 'NoLocksError'
  readonly lacking: 'package' | 'file system'
  override readonly cause: Error

  constructor(lacking: NoLocksError['lacking'], cause: Error) {
    super(`files cannot be locked: ${cause.message}`)
    this.lacking = lacking
    this.cause = cause
  }
}

/**
 * Opens a file, which is created if missing, and locks it until it is closed. The kernel releases the lock when the
 * process ends, however it ends.
 * @returns a descriptor, because an unreferenced FileHandle would be closed; null if the file is locked already
 * @throws NoLocksError; the file system's error if the file cannot be opened
 */
export async function openLocked(path: string): Promise<number | null> {
  const { tryLock } = await import('fs-native-extensions').then(
    (module) => module.default,
    (error: Error) => {
      throw new NoLocksError('package', error)
    },
  )
  const file = openSync(path, 'a', 0o600)
  let isGranted = false
  try {
    isGranted = tryLock(file)
  } catch (error) {
    throw new NoLocksError('file system', error as Error)
  } finally {
    if (!isGranted) closeSync(file)
  }
  return isGranted ? file : null
}

/**
 * Creates a file and locks it. Does nothing if files cannot be locked.
 * @returns null if the file is locked already
 */
export async function lockFile(path: string): Promise<FileLock | null> {
  for (;;) {
    const lock = await openLocked(path).catch(() => undefined)
    if (lock === undefined) return NO_LOCK
    if (lock === null) return null
    if (isAt(path, lock)) return { release: () => release(path, lock) }
    // Its holder has removed it since it was opened.
    closeSync(lock)
  }
}

/**
 * Does something while a file is locked, see `lockFile`.
 * @param refusal the sentence for the user if it is locked already
 * @throws Error
 */
export async function whileLocked<Result>(path: string, refusal: string, work: () => Promise<Result>): Promise<Result> {
  const lock = await lockFile(path)
  if (!lock) throw new Error(refusal)
  try {
    return await work()
  } finally {
    lock.release()
  }
}

function isAt(path: string, file: number): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found !== undefined && found.ino === fstatSync(file).ino
}

function release(path: string, lock: number): void {
  try {
    // Remove the file while it is locked, so that a process which has opened it notices.
    rmSync(path, { force: true })
  } finally {
    closeSync(lock)
  }
}
