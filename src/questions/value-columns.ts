import { nameValueColumn } from '../store/fact-values.js'

/** The columns of facts from which one question reads the values of properties. */
export class ValueColumns {
  readonly #names: ReadonlySet<string>
  readonly #asked = new Map<string, string[]>()

  /** @param names of all there are */
  constructor(names: ReadonlySet<string>) {
    this.#names = names
  }

  /** The column with the values of a property; null if there is none. */
  find(path: string[]): string | null {
    const name = nameValueColumn(path)
    this.#asked.set(name, path)
    return this.#names.has(name) ? name : null
  }

  /** The columns that are read. */
  get used(): string[] {
    return [...this.#asked.keys()].filter((name) => this.#names.has(name))
  }

  /** The properties that were looked for. */
  get paths(): string[][] {
    return [...this.#asked.values()]
  }
}
