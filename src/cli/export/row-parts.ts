import { open } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { withPath } from '../../lib/failure-text.js'
import type { CommandIo } from '../command.js'
import type { Blocks } from '../http/blocks.js'
import { OutputError, openOutput } from '../output.js'
import type { Part, Parts, Written } from './part.js'
import type { RowReader } from './row-reader.js'

/** Interval at which written rows are synced to disk and recorded. */
const RECORD_MS = 250

/** Destination of an export's rows. */
interface RowOutput {
  /** Appends rows; resolves when they are accepted. */
  write(rows: Buffer): Promise<void>
  /** Resolves when everything accepted before the call is on disk. */
  sync(): Promise<void>
  close(): Promise<void>
}

/**
 * Writes an export in a line format. While a part is synced and recorded, the next one is read and written.
 * @param blocks memory that the reader uses
 * @param path null for standard output
 */
export async function openRowParts(
  reader: RowReader,
  blocks: Blocks,
  path: string | null,
  before: Written,
  io: CommandIo,
): Promise<Parts> {
  return new RowParts(reader, blocks, path === null ? streamOutput(io) : await fileOutput(path, before))
}

class RowParts implements Parts {
  readonly #reader: RowReader
  readonly #blocks: Blocks
  readonly #output: RowOutput
  /** written rows that are not recorded yet; null if there are none */
  #ahead: Part | null = null
  #failure: { error: unknown } | null = null
  #isClosed = false
  readonly #writing: Promise<void>

  constructor(reader: RowReader, blocks: Blocks, output: RowOutput) {
    this.#reader = reader
    this.#blocks = blocks
    this.#output = output
    this.#writing = this.#writeAll()
  }

  async write(): Promise<Part> {
    do await this.#writingFor(RECORD_MS)
    while (!this.#ahead && !this.#failure)
    const part = this.#ahead
    this.#ahead = null
    // Rows written before a failure are recorded first.
    if (!part) throw this.#failure?.error
    await this.#output.sync()
    return part
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#writing
    await this.#output.close()
  }

  /** Resolves after `ms`, or as soon as writing has ended. */
  async #writingFor(ms: number): Promise<void> {
    const over = new AbortController()
    const time = wait(ms, undefined, over).catch(() => undefined)
    await Promise.race([this.#writing, time])
    over.abort()
  }

  /** Never rejects: `write` throws the failure. */
  async #writeAll(): Promise<void> {
    try {
      for (let isLast = false; !isLast && !this.#isClosed; ) {
        const { bytes, rows, ...piece } = await this.#reader.read()
        await this.#output.write(bytes)
        this.#blocks.release(bytes)
        const { rows: rowsBefore, bytes: bytesBefore } = this.#ahead ?? { rows: 0, bytes: 0 }
        this.#ahead = { ...piece, rows: rowsBefore + rows, bytes: bytesBefore + bytes.length }
        isLast = piece.isLast
      }
    } catch (error) {
      this.#failure = { error }
    }
  }
}

/** Opens a file, and truncates it to the recorded parts. */
async function fileOutput(path: string, { bytes }: Written): Promise<RowOutput> {
  const handle = await open(path, bytes > 0 ? 'r+' : 'w', 0o600)
  await handle.truncate(bytes)
  let position = bytes
  return {
    async write(rows) {
      for (let at = 0; at < rows.length; ) {
        const { bytesWritten } = await handle.write(rows, at, rows.length - at, position).catch(withPath(path))
        at += bytesWritten
        position += bytesWritten
      }
    },
    sync: () => handle.datasync().catch(withPath(path)),
    close: () => handle.close(),
  }
}

function streamOutput(io: CommandIo): RowOutput {
  const write = openOutput(io)
  return { write: (rows) => write(rows).catch(explain), sync: async () => undefined, close: async () => undefined }
}

/** Unlike other output, part of an export is no result. */
function explain(error: unknown): never {
  if (!(error instanceof OutputError && error.isClosed)) throw error
  throw new Error('The reader closed the output before the end.', { cause: error })
}
