import { closeSync, fstatSync, openSync, rmSync, statSync } from 'node:fs'

export interface FileLock {
  /** Releases the lock and removes the file. */
  release(): void
}

/** Where files cannot be locked: the file system has no locks, or the optional package for them is not installed. */
const NO_LOCK: FileLock = { release: () => undefined }

/**
 * Creates a file and locks it. The kernel releases the lock when the process ends, however it ends. Where files cannot be
 * locked, this does nothing.
 * @returns null if another process holds the lock
 */
export async function lockFile(path: string): Promise<FileLock | null> {
  const extensions = await import('fs-native-extensions').then(
    (module) => module.default,
    () => null,
  )
  if (!extensions) return NO_LOCK
  for (;;) {
    let lock: number
    try {
      // A number, as a FileHandle that nothing refers to would be closed.
      lock = openSync(path, 'a', 0o600)
    } catch {
      return NO_LOCK
    }
    try {
      if (!extensions.tryLock(lock)) {
        closeSync(lock)
        return null
      }
    } catch {
      closeSync(lock)
      return NO_LOCK
    }
    if (isAt(path, lock)) return { release: () => release(path, lock) }
    // Its holder has removed it since it was opened.
    closeSync(lock)
  }
}

function isAt(path: string, file: number): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found !== undefined && found.ino === fstatSync(file).ino
}

function release(path: string, lock: number): void {
  try {
    // While it is locked: another process that has opened it sees that it is gone.
    rmSync(path, { force: true })
  } finally {
    closeSync(lock)
  }
}
