import type { Position } from '../model/position.js'
import type { JournalListener } from './journal.js'

/** The listeners of a journal. */
export class JournalListeners {
  readonly #all = new Set<JournalListener>()

  /** @returns a function that removes the listener */
  add(listener: JournalListener): () => void {
    this.#all.add(listener)
    return () => this.#all.delete(listener)
  }

  wake(): void {
    for (const { onWake } of this.#all) onWake?.()
  }

  noteStored(position: Position): void {
    for (const { onStored } of this.#all) onStored?.(position)
  }

  /** @param entries whose bodies neither the journal nor the writer will read again */
  release(entries: { body: Buffer }[]): void {
    for (const { onReleased } of this.#all) for (const { body } of entries) onReleased?.(body)
  }
}
