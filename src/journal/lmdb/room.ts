import { statfs } from 'node:fs/promises'
import type { LmdbTables } from './tables.js'
import { unwritable } from './transact.js'

/**
 * Bytes that are left to LMDB, on the disk and of its own, which has to note what is claimed and what is stored: without
 * room for that, the journal could not be drained, and would stay full.
 */
const RESERVED_BYTES = 16 * 1024 * 1024

/** What `getStats` of a table has, in pages. */
interface TableStats {
  pageSize: number
  treeBranchPageCount: number
  treeLeafPageCount: number
  overflowPages: number
}

/** @throws ApiError `unavailable` if LMDB would have less than it needs to drain the journal */
export async function assertWritable(folder: string, tables: LmdbTables): Promise<void> {
  await assertRoom(folder, tables).catch((error) => {
    throw unwritable(error)
  })
}

/** @throws Error ENOSPC if a write of that many bytes to a folder would take what is left to LMDB */
export async function assertRoom(folder: string, tables: LmdbTables, bytes = 0): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const left = bavail * bsize - bytes
  if (left >= 0 && (left >= RESERVED_BYTES || left + unusedBytes(tables) >= RESERVED_BYTES)) return
  const reason = `ENOSPC: ${Math.max(0, left)} bytes would be left on the disk, and LMDB needs ${RESERVED_BYTES}`
  throw Object.assign(new Error(reason), { code: 'ENOSPC' })
}

/** What LMDB has freed in its file, which never shrinks. */
function unusedBytes(tables: LmdbTables): number {
  const pagesOf = (stats: TableStats) => stats.treeBranchPageCount + stats.treeLeafPageCount + stats.overflowPages
  const { lastPageNumber, pageSize } = tables.root.getStats() as TableStats & { lastPageNumber: number }
  const used = Object.values(tables).reduce((sum, table) => sum + pagesOf(table.getStats() as TableStats), 0)
  return Math.max(0, lastPageNumber - used) * pageSize
}
