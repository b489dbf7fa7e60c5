import { RELEASE, RENEW } from './scripts/block.js'

/**
 * Another writer takes over this long after the last renewal, ms: soon enough for a reader that waits 5 s. Two writers at
 * once do no harm, because a block has one token; they only do the work twice.
 */
const LEASE_MS = 3_000
const RENEWAL_MS = 1_000

/** The writer's lease, which CLAIM takes: one process at a time stores blocks. */
export class WriterLease {
  /** milliseconds, as an argument of CLAIM */
  readonly ms = String(LEASE_MS)
  readonly #name: string
  readonly #script: (script: string, args: string[]) => Promise<unknown>
  #renewal: NodeJS.Timeout | undefined

  /**
   * @param name unique name of this writer
   * @param script runs a script on the key of the lease
   */
  constructor(name: string, script: (script: string, args: string[]) => Promise<unknown>) {
    this.#name = name
    this.#script = script
  }

  /** Renews the lease for as long as this process lives and has a block, however long its INSERT takes. */
  hold(): void {
    this.#renewal ??= setInterval(() => {
      // The next renewal is soon enough; if that fails as well, another writer takes over.
      this.#script(RENEW, [this.#name, this.ms]).catch(() => undefined)
    }, RENEWAL_MS).unref()
  }

  /** Stops the renewal: the next claim is due before the lease expires, or there is nothing to store. */
  rest(): void {
    clearInterval(this.#renewal)
    this.#renewal = undefined
  }

  /** Lets another writer start at once, where it would otherwise wait for the lease to expire. */
  async release(): Promise<void> {
    await this.#script(RELEASE, [this.#name]).catch(() => undefined)
  }
}
