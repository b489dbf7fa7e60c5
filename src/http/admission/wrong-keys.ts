import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyBaseLogger } from 'fastify'
import { rateLimited } from '../../contract/errors.js'
import { oncePerMinute } from '../../lib/once-per-minute.js'
import { TokenBuckets } from '../../lib/token-buckets.js'

const MINUTE_MS = 60_000

/**
 * Limits the wrong keys that an address may send, in this process. Only requests with a wrong key are refused, so that
 * someone guessing keys cannot lock out others who share the address.
 */
export class WrongKeys {
  readonly #max: number
  readonly #buckets: TokenBuckets
  readonly #warn: (now: number) => void

  /** @param max wrong keys per minute; 0 for no limit */
  constructor(max: number, log: FastifyBaseLogger) {
    this.#max = max
    this.#buckets = new TokenBuckets({ tokens: max, inMs: MINUTE_MS }, max)
    // Log lines must not name addresses.
    this.#warn = oncePerMinute((now) =>
      log.warn({ addresses: this.#buckets.countEmpty(now) }, 'many wrong keys are being sent'),
    )
  }

  /**
   * @param address as `clientAddress` returns it
   * @throws ApiError `rate_limited` if the address is over the limit
   */
  count(address: string, now = Date.now()): void {
    if (this.#max === 0) return
    const name = normalizeIP(address)
    const wait = this.#buckets.wait(name, now)
    if (wait === 0) {
      this.#buckets.spend(name, 1, now)
      return
    }
    this.#warn(now)
    throw rateLimited('wrong_keys', 'This address has sent too many wrong keys.', wait, this.#max)
  }
}
