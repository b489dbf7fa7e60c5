import { statfs } from 'node:fs/promises'
import type { LmdbTables } from './tables.js'
import { unwritable } from './transact.js'

/**
 * Bytes that are reserved for LMDB, on the disk and in its own file. It has to record claims and acknowledgements:
 * without room for them, the journal could not be drained and would stay full.
 */
const RESERVED_BYTES = 16 * 1024 * 1024

/** What `getStats` of a table returns: the page size in bytes, the rest in pages. */
interface TableStats {
  pageSize: number
  treeBranchPageCount: number
  treeLeafPageCount: number
  overflowPages: number
}

/**
 * @param bytes that a write would take in addition to LMDB's
 * @throws ApiError `unavailable` if LMDB would have less than it needs to drain the journal
 */
export async function assertWritable(folder: string, tables: LmdbTables, bytes = 0): Promise<void> {
  await assertRoom(folder, tables, bytes).catch((error) => {
    throw unwritable(error)
  })
}

/** @throws Error ENOSPC if a write of this many bytes to the folder would use the space reserved for LMDB */
export async function assertRoom(folder: string, tables: LmdbTables, bytes = 0): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const left = bavail * bsize - bytes
  if (left >= 0 && (left >= RESERVED_BYTES || left + unusedBytes(tables) >= RESERVED_BYTES)) return
  const reason = `ENOSPC: ${Math.max(0, left)} bytes would be left on the disk, and ${RESERVED_BYTES} are reserved for draining the journal`
  throw Object.assign(new Error(reason), { code: 'ENOSPC' })
}

/** Bytes that LMDB has freed within its file, which never shrinks. */
function unusedBytes(tables: LmdbTables): number {
  const countPages = (stats: TableStats) => stats.treeBranchPageCount + stats.treeLeafPageCount + stats.overflowPages
  const { lastPageNumber, pageSize } = tables.root.getStats() as TableStats & { lastPageNumber: number }
  const used = Object.values(tables).reduce((sum, table) => sum + countPages(table.getStats() as TableStats), 0)
  return Math.max(0, lastPageNumber - used) * pageSize
}
