import type { Database } from 'lmdb'

type Table = Database<Buffer, Buffer>

/**
 * The changes that a write makes in LMDB. Reads see them. They are applied all or none, once the entries of the write are in
 * the log.
 */
export class Draft {
  readonly #changes = new Map<Table, Map<string, { key: Buffer; value: Buffer }>>()

  get isEmpty(): boolean {
    return this.#changes.size === 0
  }

  get(table: Table, key: Buffer): Buffer | undefined {
    const changed = this.#changes.get(table)?.get(key.toString('latin1'))
    return changed ? changed.value : table.get(key)
  }

  put(table: Table, key: Buffer, value: Buffer): void {
    const changes = this.#changes.get(table) ?? new Map<string, { key: Buffer; value: Buffer }>()
    this.#changes.set(table, changes)
    changes.set(key.toString('latin1'), { key, value })
  }

  /**
   * Makes the changes. Call it within a transaction.
   * @param measured one of the tables
   * @returns by how many bytes the values of that table grow
   */
  apply(measured: Table): number {
    let grown = 0
    for (const [table, changes] of this.#changes) {
      for (const { key, value } of changes.values()) {
        if (table === measured) grown += value.length - (table.get(key)?.length ?? 0)
        table.put(key, value)
      }
    }
    return grown
  }
}
