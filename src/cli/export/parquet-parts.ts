import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { withPath } from '../../lib/failure-text.js'
import { makeFolder } from '../../lib/make-folder.js'
import type { Blocks } from '../http/blocks.js'
import { rowsInParquet } from './parquet-rows.js'
import type { Part, Parts } from './part.js'
import type { Run, Runs } from './runs.js'

/**
 * Writes an export to a folder of Parquet files, numbered in order. A file is renamed to its final name once it is
 * complete; one that breaks off is requested again.
 */
export async function openParquetParts(
  runs: Runs,
  blocks: Blocks,
  folder: string,
  cursor: string | null,
  rowsPerFile: number,
): Promise<Parts> {
  await makeFolder(resolve(folder))
  let next = cursor
  return {
    async write({ pages }): Promise<Part> {
      const file = parquetFile(folder, pages)
      const { run, rows, bytes } = await runs.retried(async () => {
        const run = await runs.open(next, rowsPerFile)
        return { run, ...(await writeDraft(`${file}.new`, run, blocks)) }
      })
      next = run.next
      // The first file is kept even without rows, because it has the columns.
      const isKept = rows > 0 || pages === 0
      if (isKept) await rename(`${file}.new`, file)
      else await rm(`${file}.new`)
      // Events that were pending when the run began may have been stored since.
      const isLast = !run.hasMore && (run.pending === 0 || rows === 0)
      return { rows, bytes: isKept ? bytes : 0, next, isLast, pending: run.pending }
    },
    close: async () => undefined,
  }
}

/** Returns the path of the file with this number, starting at 0. */
export function parquetFile(folder: string, page: number): string {
  return join(folder, `events-${String(page + 1).padStart(6, '0')}.parquet`)
}

async function writeDraft(path: string, { chunks }: Run, blocks: Blocks): Promise<{ rows: number; bytes: number }> {
  const handle: FileHandle = await open(path, 'w+', 0o600)
  try {
    let bytes = 0
    for await (const chunk of chunks) {
      await handle.writeFile(chunk).catch(withPath(path))
      bytes += chunk.length
      blocks.release(chunk)
    }
    await handle.datasync().catch(withPath(path))
    return { rows: await rowsInParquet(handle, bytes), bytes }
  } finally {
    await handle.close()
  }
}
