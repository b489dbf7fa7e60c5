import { open } from 'node:fs/promises'
import type { CommandIo } from '../command.js'
import type { Part, Parts, Written } from './part.js'
import type { Piece, RowReader } from './row-reader.js'

/** Where the rows of an export go. */
interface RowOutput {
  /** Resolves when the rows are on disk, at this position. */
  write(rows: Buffer, position: number): Promise<void>
  close(): Promise<void>
}

/**
 * Writes an export of lines. While one piece is written, the next one is read.
 * @param path null for standard output
 */
export async function openRowParts(
  reader: RowReader,
  path: string | null,
  before: Written,
  { stdout }: CommandIo,
): Promise<Parts> {
  const output = path === null ? streamOutput(stdout) : await fileOutput(path, before)
  let reading: Promise<Piece> | null = null
  return {
    async write({ bytes: position }): Promise<Part> {
      const piece = await (reading ?? reader.read())
      reading = piece.isLast ? null : reader.read()
      // It is thrown when the piece is asked for.
      reading?.catch(() => undefined)
      await output.write(piece.bytes, position)
      return { ...piece, bytes: piece.bytes.length }
    },
    close: () => output.close(),
  }
}

/** A single file. It is truncated after the recorded parts. */
async function fileOutput(path: string, { bytes }: Written): Promise<RowOutput> {
  const handle = await open(path, bytes > 0 ? 'r+' : 'w', 0o600)
  await handle.truncate(bytes)
  return {
    async write(rows, position) {
      await handle.write(rows, 0, rows.length, position)
      await handle.datasync()
    },
    close: () => handle.close(),
  }
}

function streamOutput(stdout: CommandIo['stdout']): RowOutput {
  // If the reader is gone, the write's callback reports it; an unhandled event would end the process.
  const ignore = () => undefined
  stdout.on('error', ignore)
  return {
    write(rows) {
      return new Promise((resolve, reject) => {
        stdout.write(rows, (error) => (error ? reject(closedBefore(error)) : resolve()))
      })
    },
    close: async () => void stdout.off('error', ignore),
  }
}

function closedBefore(cause: NodeJS.ErrnoException): Error {
  return cause.code === 'EPIPE' ? new Error('The reader of the output closed it before the end.', { cause }) : cause
}
