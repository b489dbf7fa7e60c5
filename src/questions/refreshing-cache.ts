import type { Backlog } from './backlog.js'

interface CacheEntry<T> {
  known: T | undefined
  weight: number
  making: Promise<void> | undefined
  isRenewing: boolean
}

export interface RefreshingCacheOptions<T> {
  /** the size of a result and its key, in the unit of `room` */
  weigh(key: string, value: T): number
  /** maximum size of all results together; the least recently used ones are evicted */
  room: number
  /** renews results in the background */
  backlog: Backlog
  /** whether to drop a renewed result because `by`, made in the meantime, is newer */
  isOutdated(renewed: T, by: T): boolean
}

/** A request for a result. */
export interface CacheRequest<T> {
  projectId: string
  /** whether a result can be used without renewing it */
  isCurrent(known: T): boolean
  /** whether an outdated result can be used while it is renewed in the background */
  suffices(known: T): boolean
  /** makes a result that the caller waits for; if it is not current, it is then renewed in the background */
  make(known: T | undefined): Promise<T>
  /** makes a result in the background */
  renew(known: T): Promise<T>
}

/** A cache of results by key. An unusable result is made again, once for all concurrent callers. */
export class RefreshingCache<T> {
  readonly #options: RefreshingCacheOptions<T>
  /** least recently used first */
  readonly #entries = new Map<string, CacheEntry<T>>()
  #weight = 0

  constructor(options: RefreshingCacheOptions<T>) {
    this.#options = options
  }

  /** @throws what `make` throws for this or a concurrent call; the last result is kept */
  async get(key: string, wanted: CacheRequest<T>): Promise<T> {
    for (;;) {
      const entry = this.#use(key)
      const { known } = entry
      if (known !== undefined && wanted.isCurrent(known)) return known
      if (known !== undefined && wanted.suffices(known)) {
        this.#renew(key, entry, known, wanted)
        return known
      }
      if (!entry.making) {
        const made = await this.#make(key, entry, wanted)
        if (!wanted.isCurrent(made) && wanted.suffices(made)) this.#renew(key, entry, made, wanted)
        return made
      }
      await entry.making
    }
  }

  /** The last result, current or not. */
  last(key: string): T | undefined {
    return this.#entries.get(key)?.known
  }

  #use(key: string): CacheEntry<T> {
    const entry = this.#entries.get(key) ?? { known: undefined, weight: 0, making: undefined, isRenewing: false }
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry
  }

  async #make(key: string, entry: CacheEntry<T>, { make }: CacheRequest<T>): Promise<T> {
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

  /** Renews a result in the background. If that fails, the next call starts it again. */
  #renew(key: string, entry: CacheEntry<T>, known: T, { projectId, renew }: CacheRequest<T>): void {
    if (entry.isRenewing) return
    entry.isRenewing = this.#options.backlog.add(projectId, async () => {
      try {
        const renewed = await renew(known)
        // A result that is being made from the old one would replace the renewed one.
        while (entry.making) await entry.making.catch(() => undefined)
        const isWanted = this.#entries.get(key) === entry
        const { known: last } = entry
        if (isWanted && !(last !== undefined && this.#options.isOutdated(renewed, last))) this.#put(key, entry, renewed)
      } finally {
        entry.isRenewing = false
      }
    })
  }

  /** Stores a result, and evicts others if there is no room. */
  #put(key: string, entry: CacheEntry<T>, value: T): void {
    const weight = this.#options.weigh(key, value)
    this.#weight += weight - entry.weight
    Object.assign(entry, { known: value, weight })
    for (const [other, oldest] of this.#entries) {
      if (this.#weight <= this.#options.room) return
      if (oldest === entry || !oldest.making) this.#drop(other, oldest)
    }
  }

  #drop(key: string, entry: CacheEntry<T>): void {
    if (!this.#entries.delete(key)) return
    this.#weight -= entry.weight
  }
}
