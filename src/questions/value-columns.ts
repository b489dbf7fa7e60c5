import { type ColumnSource, nameValueColumn } from '../store/fact-values.js'

/** The columns of facts from which one question reads the values of properties. */
export class ValueColumns {
  readonly #names: ReadonlySet<string>
  readonly #asked = new Map<string, ColumnSource>()

  /** @param names of all columns that exist */
  constructor(names: ReadonlySet<string>) {
    this.#names = names
  }

  /** The column with these values; null if there is none. */
  find(source: ColumnSource): string | null {
    const name = nameValueColumn(source)
    this.#asked.set(name, source)
    return this.#names.has(name) ? name : null
  }

  /** The columns that are read. */
  get used(): string[] {
    return [...this.#asked.keys()].filter((name) => this.#names.has(name))
  }

  /** The values that the question uses. */
  get sources(): ColumnSource[] {
    return [...this.#asked.values()]
  }
}
