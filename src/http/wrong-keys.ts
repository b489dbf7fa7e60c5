import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyBaseLogger, FastifyReply } from 'fastify'
import { MinuteCounts } from './minute-counts.js'

/**
 * Limits the wrong keys that an address may send per minute, in this process. Only requests with a
 * wrong key are refused, so that nobody is locked out by a guesser behind the same address.
 */
export class WrongKeys {
  readonly #max: number
  readonly #log: FastifyBaseLogger
  readonly #counts = new MinuteCounts()

  /** @param max wrong keys per minute; 0 for no limit */
  constructor(max: number, log: FastifyBaseLogger) {
    this.#max = max
    this.#log = log
  }

  /**
   * @param address as `clientAddress` returns it
   * @throws ApiError `rate_limited` if the address is over the limit
   */
  count(address: string, reply: FastifyReply, now = Date.now()): void {
    if (this.#max === 0) return
    const name = normalizeIP(address)
    const count = this.#counts.add(name, 1, now)
    if (count <= this.#max) return
    if (count === this.#max + 1) this.#log.warn({ address: name }, 'an address sends many wrong keys')
    throw this.#counts.refusal('requests', 'This address has sent too many wrong keys.', this.#max, reply, now)
  }
}
