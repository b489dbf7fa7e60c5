interface Entry<T> {
  known: T | undefined
  weight: number
  making: Promise<void> | undefined
}

export interface KeptOptions<T> {
  /** what a result takes up, with its key, in the unit of `room` */
  weigh(key: string, value: T): number
  /** how much all results take up together; those that were not asked for the longest go */
  room: number
}

/** Results by key. One that is no longer current is made anew, once for all who ask for it meanwhile. */
export class Kept<T> {
  readonly #options: KeptOptions<T>
  /** the last one asked for is the last */
  readonly #entries = new Map<string, Entry<T>>()
  #weight = 0

  constructor(options: KeptOptions<T>) {
    this.#options = options
  }

  /**
   * @param isCurrent whether a result will do that was made before, or for another who asked
   * @param make from the last result, if there is one
   * @param willDo whether one that is not current will do, while it is made anew; if that fails, the next who asks begins it
   * @throws what `make` throws, its own or that of another who asked for the same; the last result stays
   */
  async get(
    key: string,
    isCurrent: (known: T) => boolean,
    make: (known: T | undefined) => Promise<T>,
    willDo: (known: T) => boolean = () => false,
  ): Promise<T> {
    for (;;) {
      const entry = this.#use(key)
      const { known } = entry
      if (known !== undefined && isCurrent(known)) return known
      if (known !== undefined && willDo(known)) {
        if (!entry.making) this.#make(key, entry, make).catch(() => undefined)
        return known
      }
      if (!entry.making) return await this.#make(key, entry, make)
      await entry.making
    }
  }

  /** Resolves when nothing is being made. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#entries.values()].map(({ making }) => making))
  }

  #use(key: string): Entry<T> {
    const entry = this.#entries.get(key) ?? { known: undefined, weight: 0, making: undefined }
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry
  }

  async #make(key: string, entry: Entry<T>, make: (known: T | undefined) => Promise<T>): Promise<T> {
    const made = make(entry.known)
    entry.making = made
      .then((value) => this.#put(key, entry, value))
      .finally(() => {
        entry.making = undefined
        if (entry.known === undefined) this.#drop(key, entry)
      })
    await entry.making
    return await made
  }

  /** Puts a result where it is asked for, and makes room for it. */
  #put(key: string, entry: Entry<T>, value: T): void {
    const weight = this.#options.weigh(key, value)
    this.#weight += weight - entry.weight
    Object.assign(entry, { known: value, weight })
    for (const [other, oldest] of this.#entries) {
      if (this.#weight <= this.#options.room) return
      if (oldest === entry || !oldest.making) this.#drop(other, oldest)
    }
  }

  #drop(key: string, entry: Entry<T>): void {
    if (!this.#entries.delete(key)) return
    this.#weight -= entry.weight
  }
}
