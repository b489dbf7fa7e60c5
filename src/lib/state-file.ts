import { open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { withPath } from './failure-text.js'

/** A JSON file that is replaced atomically: a reader, even one after a crash, finds the old state or the new one. */
export class StateFile<State> {
  readonly path: string
  #wanted: State | null = null
  #writing: Promise<void> | null = null

  constructor(path: string) {
    this.path = path
  }

  /**
   * @returns null if there is no file
   * @throws Error if the file is not valid JSON
   */
  async read(): Promise<State | null> {
    const text = await readFile(this.path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null
      throw error
    })
    if (text === null) return null
    try {
      return JSON.parse(text) as State
    } catch {
      throw new Error(`${this.path} is damaged, so the progress is unknown. See the help text.`)
    }
  }

  /** Resolves when this state, or a later one, is on disk. States that come faster than the disk writes are skipped. */
  async write(state: State): Promise<void> {
    this.#wanted = state
    // The write in flight has an older state.
    await this.#writing?.catch(() => undefined)
    this.#writing ??= this.#writeWanted().finally(() => {
      this.#writing = null
    })
    await this.#writing
  }

  async remove(): Promise<void> {
    await rm(this.path, { force: true })
  }

  async #writeWanted(): Promise<void> {
    const draft = `${this.path}.new`
    const text = `${JSON.stringify(this.#wanted, null, 2)}\n`
    const handle = await open(draft, 'w', 0o600).catch((error) => this.#fail(error))
    try {
      await handle.writeFile(text).catch(withPath(this.path))
      await handle.sync().catch(withPath(this.path))
    } finally {
      await handle.close()
    }
    await rename(draft, this.path).catch((error) => this.#fail(error))
    await syncFolder(dirname(this.path))
  }

  /** Names the file in the error, because users do not know its temporary name. */
  #fail(error: NodeJS.ErrnoException): never {
    throw Object.assign(error, { path: this.path })
  }
}

/** Makes the rename survive a power failure. Not every system can open a directory. */
async function syncFolder(path: string): Promise<void> {
  const handle = await open(path).catch(() => null)
  await handle?.sync().catch(() => undefined)
  await handle?.close()
}
