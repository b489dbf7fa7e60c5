import type { RunScript } from './script.js'
import { RELEASE, RENEW } from './scripts.js'

/**
 * Another writer takes over this long after the last renewal, ms: soon enough for a reader that waits 5 s. Two
 * concurrent writers do no harm, because a block has one token; they only do the work twice.
 */
const LEASE_MS = 3_000
const RENEWAL_MS = 1_000

/** The writer's lease, which CLAIM takes: one process at a time stores blocks. */
export class WriterLease {
  /** milliseconds, as an argument of CLAIM */
  readonly ms = String(LEASE_MS)
  readonly #name: string
  readonly #run: RunScript
  #renewal: NodeJS.Timeout | undefined

  /** @param name unique name of this writer */
  constructor(name: string, run: RunScript) {
    this.#name = name
    this.#run = run
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

  /** Lets another writer start immediately instead of waiting for the lease to expire. */
  async release(): Promise<void> {
    await this.#run(RELEASE, { writer: this.#name }).catch(() => undefined)
  }
}
