import type { RunScript } from './script.js'
import { RELEASE, RENEW, YIELD } from './scripts.js'

/**
 * Another writer takes over this long after the last renewal, ms: soon enough for a reader that waits 5 s. Two
 * concurrent writers do no harm, because a block has one token; they only do the work twice.
 */
const LEASE_MS = 3_000
const RENEWAL_MS = 1_000
/**
 * How long a home writer that has yielded claims like a guest, ms. Otherwise it would take the lease back at once, and
 * fail again.
 */
const YIELDED_MS = 30_000

/** See CLAIM. */
type Place = '' | 'home' | 'guest'

/** The writer's lease, which CLAIM takes: one process at a time stores blocks. */
export class WriterLease {
  /** milliseconds, as an argument of CLAIM */
  readonly ms = String(LEASE_MS)
  readonly #name: string
  readonly #run: RunScript
  readonly #place: Place
  /** whether this writer claims like a guest */
  isWeak = false
  #renewal: NodeJS.Timeout | undefined
  /** when this writer last yielded (`performance.now()`) */
  #yieldedAt = Number.NEGATIVE_INFINITY

  /** @param name unique name of this writer */
  constructor(name: string, place: Place, run: RunScript) {
    this.#name = name
    this.#place = place
    this.#run = run
  }

  /** an argument of CLAIM */
  get place(): Place {
    const hasYielded = performance.now() < this.#yieldedAt + YIELDED_MS
    return this.#place === 'home' && (hasYielded || this.isWeak) ? 'guest' : this.#place
  }

  /** Renews the lease for as long as this process lives and has a block, however long its INSERT takes. */
  hold(): void {
    this.#renewal ??= setInterval(() => {
      // The next renewal tries again; if that also fails, another writer takes over.
      this.#run(RENEW, { writer: this.#name, leaseMs: this.ms }).catch(() => undefined)
    }, RENEWAL_MS).unref()
  }

  /** Stops the renewal: the next claim is due before the lease expires, or there is nothing to store. */
  rest(): void {
    clearInterval(this.#renewal)
    this.#renewal = undefined
  }

  /**
   * Releases the lease if another writer is waiting for it.
   * @returns whether another writer may have the lease from now on; true if Redis does not respond
   */
  async yield(): Promise<boolean> {
    const hasYielded = await this.#run(YIELD, { writer: this.#name }).then(
      (reply) => reply === 1,
      () => true,
    )
    if (hasYielded) {
      this.rest()
      this.#yieldedAt = performance.now()
    }
    return hasYielded
  }

  /** Lets another writer start immediately instead of waiting for the lease to expire. */
  async release(): Promise<void> {
    await this.#run(RELEASE, { writer: this.#name }).catch(() => undefined)
  }
}
