import { statfs } from 'node:fs/promises'
import { unwritable } from './transact.js'

/**
 * Bytes of the disk that are left to LMDB, which has to note what is claimed and what is stored: without room for that, the
 * journal could not be drained, and would stay full.
 */
const RESERVED_BYTES = 16 * 1024 * 1024

/** @throws ApiError `unavailable` if LMDB would have less */
export async function assertWritable(folder: string): Promise<void> {
  await assertRoom(folder).catch((error) => {
    throw unwritable(error)
  })
}

/** @throws Error ENOSPC if a write of that many bytes to a folder would take what is left to LMDB */
export async function assertRoom(folder: string, bytes = 0): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const left = bavail * bsize - bytes
  if (left >= RESERVED_BYTES) return
  const reason = `ENOSPC: ${Math.max(0, left)} bytes would be left on the disk, less than ${RESERVED_BYTES}`
  throw Object.assign(new Error(reason), { code: 'ENOSPC' })
}
