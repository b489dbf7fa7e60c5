import type { Backlog } from './backlog.js'

interface Entry<T> {
  known: T | undefined
  weight: number
  making: Promise<void> | undefined
  isRenewing: boolean
}

export interface KeptOptions<T> {
  /** what a result takes up, with its key, in the unit of `room` */
  weigh(key: string, value: T): number
  /** how much all results take up together; those that were not asked for the longest go */
  room: number
  /** renews results behind the calls */
  backlog: Backlog
  /** whether a result that was renewed is of no use, as another was made meanwhile */
  isOutdated(renewed: T, by: T): boolean
}

/** What is asked for. */
export interface Wanted<T> {
  /** whether a result will do as it is */
  isCurrent(known: T): boolean
  /** whether one that is not current will do while it is renewed */
  willDo(known: T): boolean
  /** makes one that is waited for, from the last one if there is one; if it is not current but will do, it is renewed */
  make(known: T | undefined): Promise<T>
  /** makes one behind the calls */
  renew(known: T): Promise<T>
}

/** Results by key. One that will not do is made anew, once for all who ask for it meanwhile. */
export class Kept<T> {
  readonly #options: KeptOptions<T>
  /** the last one asked for is the last */
  readonly #entries = new Map<string, Entry<T>>()
  #weight = 0

  constructor(options: KeptOptions<T>) {
    this.#options = options
  }

  /** @throws what `make` throws, its own or that of another who asked for the same; the last result stays */
  async get(key: string, wanted: Wanted<T>): Promise<T> {
    for (;;) {
      const entry = this.#use(key)
      const { known } = entry
      if (known !== undefined && wanted.isCurrent(known)) return known
      if (known !== undefined && wanted.willDo(known)) {
        this.#renew(key, entry, known, wanted)
        return known
      }
      if (!entry.making) {
        const made = await this.#make(key, entry, wanted)
        if (!wanted.isCurrent(made) && wanted.willDo(made)) this.#renew(key, entry, made, wanted)
        return made
      }
      await entry.making
    }
  }

  /** The last result, whatever it is. */
  last(key: string): T | undefined {
    return this.#entries.get(key)?.known
  }

  #use(key: string): Entry<T> {
    const entry = this.#entries.get(key) ?? { known: undefined, weight: 0, making: undefined, isRenewing: false }
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry
  }

  async #make(key: string, entry: Entry<T>, { make }: Wanted<T>): Promise<T> {
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

  /** If that fails, the next who asks begins it again. */
  #renew(key: string, entry: Entry<T>, known: T, { renew }: Wanted<T>): void {
    if (entry.isRenewing) return
    entry.isRenewing = this.#options.backlog.add(async () => {
      try {
        const renewed = await renew(known)
        // What is made from the old one meanwhile would take its place.
        while (entry.making) await entry.making.catch(() => undefined)
        const isWanted = this.#entries.get(key) === entry
        const { known: last } = entry
        if (isWanted && !(last !== undefined && this.#options.isOutdated(renewed, last))) this.#put(key, entry, renewed)
      } finally {
        entry.isRenewing = false
      }
    })
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
