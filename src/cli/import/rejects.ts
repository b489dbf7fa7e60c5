import { type FileHandle, open } from 'node:fs/promises'
import type { Reject } from './batches.js'

/**
 * The rows that are no events, one JSON object a line: `line`, `reason` and the beginning of the `row`. The file is made
 * when there is a first one.
 */
export class RejectsFile {
  readonly path: string
  /** bytes in it */
  #bytes: number
  #handle: FileHandle | null = null

  /** @param bytes of the file that are kept; what stands behind them belongs to rows that are read again */
  constructor(path: string, bytes: number) {
    this.path = path
    this.#bytes = bytes
  }

  /** Resolves when they are written. @returns the length of the file in bytes */
  async write(rejects: Reject[]): Promise<number> {
    if (rejects.length > 0) {
      const lines = Buffer.from(rejects.map((reject) => `${JSON.stringify(reject)}\n`).join(''))
      const handle = await this.#open()
      await handle.write(lines, 0, lines.length, this.#bytes)
      this.#bytes += lines.length
    }
    return this.#bytes
  }

  async close(): Promise<void> {
    await this.#handle?.close()
  }

  async #open(): Promise<FileHandle> {
    if (!this.#handle) {
      this.#handle = await open(this.path, this.#bytes > 0 ? 'r+' : 'w', 0o600)
      await this.#handle.truncate(this.#bytes)
    }
    return this.#handle
  }
}
