import type { Database, RootDatabase } from 'lmdb'
import { transact } from './transact.js'

type Table = Database<Buffer, Buffer>

interface Change {
  key: Buffer
  /** null: the key is removed */
  value: Buffer | null
}

/**
 * The changes that a write makes in LMDB. Reads through the draft see them. They are applied atomically, after the
 * entries of the write are in the log.
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
   * @param more work for the same transaction
   * @param watched `onReplaced` is called within the transaction with the previous values of one of the tables
   * @throws see `transact`
   */
  async commit(
    root: RootDatabase,
    more?: () => void,
    watched?: { table: Table; onReplaced(value: Buffer): void },
  ): Promise<void> {
    await transact(root, () => {
      if (watched) this.#notifyReplaced(watched)
      this.#apply()
      more?.()
    })
    this.#isCommitted = true
  }

  #change(table: Table, change: Change): void {
    const changes = this.#changes.get(table) ?? new Map<string, Change>()
    this.#changes.set(table, changes)
    changes.set(change.key.toString('latin1'), change)
  }

  #notifyReplaced({ table, onReplaced }: { table: Table; onReplaced(value: Buffer): void }): void {
    for (const { key } of this.#changes.get(table)?.values() ?? []) {
      const value = table.get(key)
      if (value) onReplaced(value)
    }
  }

  #apply(): void {
    for (const [table, changes] of this.#changes) {
      for (const { key, value } of changes.values()) {
        if (value) table.put(key, value)
        else table.remove(key)
      }
    }
  }
}
