import { type FileHandle, open } from 'node:fs/promises'
import { withPath } from '../../lib/failure-text.js'
import type { Reject } from './batches.js'

/**
 * A file of the rows that are not events, one JSON object per line: `line`, `reason` and the beginning of the `row`.
 * It is created with the first reject.
 */
export class RejectsFile {
  readonly path: string
  #bytes: number
  #handle: FileHandle | null = null

  /** @param bytes how much of an existing file to keep; the rest belongs to rows that will be read again */
  constructor(path: string, bytes: number) {
    this.path = path
    this.#bytes = bytes
  }

  /** @returns the length of the file in bytes */
  async write(rejects: Reject[]): Promise<number> {
    if (rejects.length > 0) {
      const lines = Buffer.from(rejects.map((reject) => `${JSON.stringify(reject)}\n`).join(''))
      const handle = await this.#open()
      // Unlike `write`, it writes everything or throws, for example on a full disk.
      await handle.appendFile(lines).catch(withPath(this.path))
      this.#bytes += lines.length
    }
    return this.#bytes
  }

  async close(): Promise<void> {
    await this.#handle?.close()
  }

  async #open(): Promise<FileHandle> {
    if (!this.#handle) {
      this.#handle = await open(this.path, 'a', 0o600)
      // The user may have moved the file of an earlier run away.
      const { size } = await this.#handle.stat()
      this.#bytes = Math.min(this.#bytes, size)
      await this.#handle.truncate(this.#bytes)
    }
    return this.#handle
  }
}
