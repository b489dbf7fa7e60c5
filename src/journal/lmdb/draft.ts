import type { Database, RootDatabase } from 'lmdb'
import { transact } from './transact.js'

type Table = Database<Buffer, Buffer>

interface Change {
  key: Buffer
  /** null: the key is removed */
  value: Buffer | null
}

/**
 * The changes that a write makes in LMDB. Reads see them. They are applied all or none, once the entries of the write are in
 * the log.
 */
export class Draft {
  readonly #changes = new Map<Table, Map<string, Change>>()
  #isCommitted = false

  get isEmpty(): boolean {
    return this.#changes.size === 0
  }

  /** Whether the changes are on disk. */
  get isCommitted(): boolean {
    return this.#isCommitted
  }

  get(table: Table, key: Buffer): Buffer | undefined {
    const changed = this.#changes.get(table)?.get(key.toString('latin1'))
    return changed ? (changed.value ?? undefined) : table.get(key)
  }

  put(table: Table, key: Buffer, value: Buffer): void {
    this.#change(table, { key, value })
  }

  remove(table: Table, key: Buffer): void {
    this.#change(table, { key, value: null })
  }

  /**
   * Makes the changes in one transaction.
   * @param measured one of the tables
   * @param more work for the same transaction
   * @returns by how many bytes the values of that table grow
   * @throws as `transact`
   */
  async commit(root: RootDatabase, measured: Table, more?: () => void): Promise<number> {
    let grown = 0
    await transact(root, () => {
      grown = this.#apply(measured)
      more?.()
    })
    this.#isCommitted = true
    return grown
  }

  #change(table: Table, change: Change): void {
    const changes = this.#changes.get(table) ?? new Map<string, Change>()
    this.#changes.set(table, changes)
    changes.set(change.key.toString('latin1'), change)
  }

  #apply(measured: Table): number {
    let grown = 0
    for (const [table, changes] of this.#changes) {
      for (const { key, value } of changes.values()) {
        if (table === measured) grown += (value?.length ?? 0) - (table.get(key)?.length ?? 0)
        if (value) table.put(key, value)
        else table.remove(key)
      }
    }
    return grown
  }
}
