import { normalizeIP } from '@fastify/rate-limit'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest, preValidationHookHandler } from 'fastify'
import type { ApiError } from '../contract/errors.js'
import { clientAddress } from './client-address.js'
import { MinuteCounts } from './minute-counts.js'

/** Session calls per minute; 0 for no limit. */
export interface SessionLimit {
  ofAddress: number
  ofKey: number
}

/** Every further so many bytes of a body or a session count as one more call. */
const BYTES_PER_CALL = 1024

/**
 * Limits the session calls of an address and of a key per minute, in this process. Everybody knows
 * the public key, and every call writes the whole session, so a call is charged by the size of its
 * body and of the session that it leaves. The limits stop a flood; neither a page nor an office
 * behind one address comes near the defaults.
 */
export class SessionCalls {
  readonly #limit: SessionLimit
  readonly #log: FastifyBaseLogger
  readonly #ofAddress = new MinuteCounts()
  readonly #ofKey = new MinuteCounts()

  constructor(limit: SessionLimit, log: FastifyBaseLogger) {
    this.#limit = limit
    this.#log = log
  }

  /** A hook for after the authentication: refuses a call over the limit with `rate_limited`. */
  readonly limit: preValidationHookHandler = (request, reply, done) => {
    try {
      this.count(request, 1 + Math.floor((request.rawBody?.length ?? 0) / BYTES_PER_CALL), reply)
      done()
    } catch (refusal) {
      done(refusal as ApiError)
    }
  }

  /**
   * Charges the session that a call has written, in bytes; if that exceeds the limit, the next
   * call is refused.
   */
  charge(request: FastifyRequest, bytes: number, now = Date.now()): void {
    const amount = Math.floor(bytes / BYTES_PER_CALL)
    if (amount === 0) return
    this.#ofAddress.add(addressOf(request), amount, now)
    this.#ofKey.add(request.keyId, amount, now)
  }

  /** @throws ApiError `rate_limited` */
  count(request: FastifyRequest, amount: number, reply: FastifyReply, now = Date.now()): void {
    const { ofAddress, ofKey } = this.#limit
    // A call that is refused for its address must not use up the limit of the key, which all
    // visitors share.
    if (ofAddress > 0) this.#use(this.#ofAddress, 'address', addressOf(request), amount, ofAddress, reply, now)
    if (ofKey > 0) this.#use(this.#ofKey, 'key', request.keyId, amount, ofKey, reply, now)
  }

  #use(
    counts: MinuteCounts,
    what: 'address' | 'key',
    name: string,
    amount: number,
    max: number,
    reply: FastifyReply,
    now: number,
  ): void {
    const count = counts.add(name, amount, now)
    if (count <= max) return
    if (count - amount <= max) this.#log.warn({ [what]: name }, 'session calls are refused: too many in this minute')
    const reason = `This ${what} may make ${max} session calls in a minute, of 1 KiB each.`
    throw counts.refusal('session_calls', reason, max, reply, now)
  }
}

function addressOf(request: FastifyRequest): string {
  return normalizeIP(clientAddress(request))
}
