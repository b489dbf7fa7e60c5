import { nameValueColumn } from '../store/fact-values.js'

/** The columns of facts that one question reads values of properties from. */
export class ValueColumns {
  readonly #names: ReadonlySet<string>
  readonly #used = new Set<string>()
  readonly #missed = new Map<string, string[]>()

  /** @param names of all there are */
  constructor(names: ReadonlySet<string>) {
    this.#names = names
  }

  /** The column with the values of a property; null if there is none. */
  find(path: string[]): string | null {
    const name = nameValueColumn(path)
    if (this.#names.has(name)) {
      this.#used.add(name)
      return name
    }
    this.#missed.set(name, path)
    return null
  }

  /** The columns that are read. */
  get used(): string[] {
    return [...this.#used]
  }

  /** The properties that had no column. */
  get missed(): string[][] {
    return [...this.#missed.values()]
  }
}
