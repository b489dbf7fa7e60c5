import { createReadStream } from 'node:fs'
import { type FileHandle, open, rm, stat } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { StateFile } from '../../lib/checkpoint-file.js'
import { withPath } from '../../lib/failure-text.js'
import type { ImportState } from './checkpoint.js'

/**
 * The ids of the batches that hold what an import has stored, one in each line, in a file beside its state. The file is created
 * with the first of them.
 */
export class StoredBatches {
  readonly path: string
  /** bytes in it */
  #bytes: number
  #handle: FileHandle | null = null
  #isSynced = true
  #syncing: Promise<void> = Promise.resolve()

  /** @param bytes of the file to keep; the rest belongs to batches that are sent again */
  constructor(path: string, bytes: number) {
    this.path = path
    this.#bytes = bytes
  }

  /** @returns the length of the file in bytes, when they are written */
  async write(ids: readonly string[]): Promise<number> {
    if (ids.length > 0) {
      const lines = ids.map((id) => `${id}\n`).join('')
      this.#handle ??= await this.#open()
      await this.#handle.appendFile(lines).catch(withPath(this.path))
      this.#isSynced = false
      this.#bytes += lines.length
    }
    return this.#bytes
  }

  /** Resolves when all that was written is on disk, in the order of the calls. */
  sync(): Promise<void> {
    this.#syncing = this.#syncing.then(async () => {
      if (this.#isSynced) return
      this.#isSynced = true
      await this.#handle?.datasync().catch(withPath(this.path))
    })
    return this.#syncing
  }

  async close(): Promise<void> {
    await this.#syncing.catch(() => undefined)
    await this.#handle?.close()
  }

  async remove(): Promise<void> {
    await rm(this.path, { force: true })
  }

  /**
   * The ids, in groups.
   * @throws Error if the file is shorter than it should be
   */
  async *read(groupSize: number): AsyncGenerator<string[]> {
    if (this.#bytes === 0) return
    const { size } = await stat(this.path).catch(() => ({ size: 0 }))
    if (size < this.#bytes) {
      throw new Error(`${this.path} is missing or incomplete, so it is unknown what the import has stored.`)
    }
    const input = createReadStream(this.path, { end: this.#bytes - 1 })
    let group: string[] = []
    for await (const id of createInterface({ input })) {
      group.push(id)
      if (group.length < groupSize) continue
      yield group
      group = []
    }
    if (group.length > 0) yield group
  }

  async #open(): Promise<FileHandle> {
    const handle = await open(this.path, 'a', 0o600)
    await handle.truncate(this.#bytes)
    return handle
  }
}

/** @param statePath of the import's state */
export function openStoredBatches(statePath: string, { done }: ImportState): StoredBatches {
  return new StoredBatches(`${statePath}.ids`, done.storedBytes ?? 0)
}

/** A file for the state of an import that never knows of more batches than the file of their ids has on disk. */
export function syncIdsFirst(
  stored: StoredBatches,
  file: StateFile<ImportState> | null,
): Pick<StateFile<ImportState>, 'write'> | null {
  if (!file) return null
  const write = async (state: ImportState) => {
    // What is recorded as done is replaced, not changed, while this waits.
    const current = { ...state, sent: [...state.sent] }
    await stored.sync()
    await file.write(current)
  }
  return { write }
}
