import { mkdir, open, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { RowFormat } from '../../contract/formats.js'
import type { CommandIo } from '../command.js'
import { csvHeaderLength, type Page } from './pages.js'

/** What was written before. */
export interface Written {
  pages: number
  /** of the file; of all files of a folder */
  bytes: number
}

/** Where the pages of an export go. */
export interface Output {
  /** Resolves when the page is on disk. @returns the bytes written */
  write(page: Page, before: Written): Promise<number>
  close(): Promise<void>
}

/** @param path a file, for Parquet a folder; null for standard output */
export async function openOutput(
  path: string | null,
  format: RowFormat,
  before: Written,
  { stdout }: CommandIo,
): Promise<Output> {
  if (path === null) return streamOutput(stdout, format)
  return format === 'parquet' ? await folderOutput(path) : await fileOutput(path, format, before)
}

/** The size on disk of an output: of its file, or of the files of its pages. A missing file counts as 0. */
export async function bytesOnDisk(path: string, format: RowFormat, pages: number): Promise<number> {
  const files = format === 'parquet' ? Array.from({ length: pages }, (_, page) => pageFile(path, page)) : [path]
  let bytes = 0
  for (const file of files) {
    bytes += await stat(file).then(
      ({ size }) => size,
      () => 0,
    )
  }
  return bytes
}

/** A single file. It is truncated after the recorded pages. */
async function fileOutput(path: string, format: RowFormat, { bytes }: Written): Promise<Output> {
  const handle = await open(path, bytes > 0 ? 'r+' : 'w', 0o600)
  await handle.truncate(bytes)
  return {
    async write(page, before) {
      const rows = rowsOf(page, format, before)
      await handle.write(rows, 0, rows.length, before.bytes)
      await handle.sync()
      return rows.length
    },
    close: () => handle.close(),
  }
}

/** A folder of Parquet files, one per page, numbered in order. A file is renamed to its name when it is complete. */
async function folderOutput(path: string): Promise<Output> {
  await mkdir(path, { recursive: true })
  return {
    async write({ bytes }, { pages }) {
      const file = pageFile(path, pages)
      const draft = `${file}.new`
      const handle = await open(draft, 'w', 0o600)
      try {
        await handle.writeFile(bytes)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await rename(draft, file)
      return bytes.length
    },
    close: async () => undefined,
  }
}

function pageFile(folder: string, page: number): string {
  return join(folder, `events-${String(page + 1).padStart(6, '0')}.parquet`)
}

function streamOutput(stdout: CommandIo['stdout'], format: RowFormat): Output {
  // If the reader is gone, the write's callback reports it; an unhandled event would end the process.
  const ignore = () => undefined
  stdout.on('error', ignore)
  return {
    write(page, before) {
      const rows = rowsOf(page, format, before)
      return new Promise((resolve, reject) => {
        stdout.write(rows, (error) => (error ? reject(closedBefore(error)) : resolve(rows.length)))
      })
    },
    close: async () => void stdout.off('error', ignore),
  }
}

function closedBefore(cause: NodeJS.ErrnoException): Error {
  return cause.code === 'EPIPE' ? new Error('The reader of the output closed it before the end.', { cause }) : cause
}

/** Only the first page keeps the names of the columns. */
function rowsOf({ bytes }: Page, format: RowFormat, { pages }: Written): Uint8Array {
  return format === 'csv' && pages > 0 ? bytes.subarray(csvHeaderLength(bytes)) : bytes
}
