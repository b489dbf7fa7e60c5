import type { FetchHeaders } from '../client/connection.js'

/**
 * The header fields of a response. With the first `Headers`, Node loads the whole of its `fetch`, which takes longer than
 * a small command.
 */
export class HeaderFields implements FetchHeaders {
  readonly #values = new Map<string, string>()

  append(name: string, value: string): void {
    const before = this.get(name)
    this.#values.set(name.toLowerCase(), before === null ? value : `${before}, ${value}`)
  }

  get(name: string): string | null {
    return this.#values.get(name.toLowerCase()) ?? null
  }

  has(name: string): boolean {
    return this.get(name) !== null
  }
}
