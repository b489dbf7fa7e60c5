/** A set that forgets the older names, and holds at most twice as many as its size. */
export class RecentNames {
  readonly #size: number
  #young = new Set<string>()
  #old = new Set<string>()

  constructor(size: number) {
    this.#size = size
  }

  has(name: string): boolean {
    return this.#young.has(name) || this.#old.has(name)
  }

  add(name: string): void {
    if (this.#young.size >= this.#size) {
      this.#old = this.#young
      this.#young = new Set()
    }
    this.#young.add(name)
  }
}
