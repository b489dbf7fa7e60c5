/** Waiting items by owner. Owners take turns, no matter how many items each of them has. */
export class OwnerQueue<T> {
  /** the next owner first */
  readonly #byOwner = new Map<string, T[]>()

  get isEmpty(): boolean {
    return this.#byOwner.size === 0
  }

  count(owner: string): number {
    return this.#byOwner.get(owner)?.length ?? 0
  }

  add(owner: string, item: T): void {
    const queue = this.#byOwner.get(owner)
    if (queue) queue.push(item)
    else this.#byOwner.set(owner, [item])
  }

  /** Adds an item before all others of its owner. */
  addFirst(owner: string, item: T): void {
    const queue = this.#byOwner.get(owner)
    if (queue) queue.unshift(item)
    else this.#byOwner.set(owner, [item])
  }

  /** Whether no other owner has items. */
  hasOnly(owner: string): boolean {
    return this.#byOwner.size === Number(this.#byOwner.has(owner))
  }

  /** Takes the first item of the owner whose turn it is. */
  next(): T | undefined {
    for (const [owner, queue] of this.#byOwner) {
      const first = queue.shift()
      this.#byOwner.delete(owner)
      if (queue.length > 0) this.#byOwner.set(owner, queue)
      return first
    }
    return undefined
  }
}
