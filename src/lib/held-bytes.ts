/** How many bytes each of several holders holds. */
export class HeldBytes {
  readonly #held = new Map<string, number>()
  #total = 0

  get total(): number {
    return this.#total
  }

  of(holder: string): number {
    return this.#held.get(holder) ?? 0
  }

  /** @param bytes negative to give back bytes that were added before */
  add(holder: string, bytes: number): void {
    const held = this.of(holder) + bytes
    if (held > 0) this.#held.set(holder, held)
    else this.#held.delete(holder)
    this.#total += bytes
  }

  /** Each holder with its bytes, which are more than 0. */
  [Symbol.iterator](): MapIterator<[holder: string, bytes: number]> {
    return this.#held.entries()
  }
}
