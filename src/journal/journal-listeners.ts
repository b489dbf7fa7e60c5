import type { Position } from '../model/position.js'
import type { Append, JournalListener, Outcome, Write } from './journal.js'

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

/**
 * The writes whose bodies nobody needs once they are executed. One that was refused because the journal is full still belongs
 * to the caller, which may give it to another lane.
 * @param isKept whether the bodies of what was appended stay in memory for the writer
 */
export function bodiesToRelease(writes: Write[], outcomes: Outcome[], isKept: boolean): Append[] {
  return writes.flatMap((write, i) => {
    const status = outcomes[i]?.status
    return write.type !== 'append' || status === 'full' || (isKept && status === 'done') ? [] : write
  })
}
