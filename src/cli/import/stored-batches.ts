import { createReadStream } from 'node:fs'
import { type FileHandle, open, rm, stat } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { withPath } from '../../lib/failure-text.js'
import { piecesAsync } from '../../lib/pieces.js'
import type { StateFile } from '../../lib/state-file.js'
import type { ImportState } from './checkpoint.js'

/**
 * A file next to an import's state with the ids of the batches that it stored, one per line. It is created with the
 * first id.
 */
export class StoredBatches {
  readonly path: string
  #bytes: number
  #handle: FileHandle | null = null
  #isSynced = true
  #syncing: Promise<void> = Promise.resolve()

  /** @param bytes how much of an existing file to keep; the rest belongs to batches that will be sent again */
  constructor(path: string, bytes: number) {
    this.path = path
    this.#bytes = bytes
  }

  /** @returns the length of the file in bytes */
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

  /** Resolves when everything written is on disk. Calls resolve in order. */
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
   * Yields the ids in groups.
   * @throws Error if the file lacks ids
   */
  async *read(groupSize: number): AsyncGenerator<string[]> {
    if (this.#bytes === 0) return
    const { size } = await stat(this.path).catch(() => ({ size: 0 }))
    if (size < this.#bytes) throw this.#missing()
    const input = createReadStream(this.path, { end: this.#bytes - 1 })
    for await (const ids of piecesAsync(createInterface({ input }), groupSize)) {
      // If the file was removed before the import resumed, zeros take the place of the earlier ids.
      if (ids.some((id) => id.includes('\0'))) throw this.#missing()
      yield ids
    }
  }

  #missing(): Error {
    return new Error(`${this.path} is missing or incomplete, so it is unknown what the import has stored.`)
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

/**
 * Wraps the state file so that the ids are synced before each write: the state never counts batches whose ids are not
 * on disk.
 */
export function syncIdsFirst(
  stored: StoredBatches,
  file: StateFile<ImportState> | null,
): Pick<StateFile<ImportState>, 'write'> | null {
  if (!file) return null
  const write = async (state: ImportState) => {
    // A shallow copy is enough: during the sync, `done` and `refused` are replaced, never changed.
    const current = { ...state, sent: [...state.sent] }
    await stored.sync()
    await file.write(current)
  }
  return { write }
}
