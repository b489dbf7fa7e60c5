/** How long after its last request an owner counts as active, ms. */
const RECENT_MS = 2_000

interface LastRequest {
  owner: string
  at: number
}

/** Remembers the owners of recent requests, to tell whether one owner's load would affect others. */
export class RecentOwners {
  readonly #now: () => number
  #last: LastRequest | null = null
  /** the last request of an owner other than the owner of `#last` */
  #other: LastRequest | null = null

  /** @param now ms of any clock that never goes back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Notes a request. */
  note(owner: string): void {
    if (this.#last?.owner === owner) {
      this.#last.at = this.#now()
      return
    }
    this.#other = this.#last
    this.#last = { owner, at: this.#now() }
  }

  /** Whether any other owner sent a request within the last two seconds. */
  hasOthersThan(owner: string): boolean {
    const other = this.#last?.owner === owner ? this.#other : this.#last
    return other !== null && this.#now() - other.at < RECENT_MS
  }
}
