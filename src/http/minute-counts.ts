import type { FastifyReply } from 'fastify'
import { type ApiError, type LimitName, rateLimited } from '../contract/errors.js'

const MINUTE_MS = 60_000
/** The most names that are counted in one minute; further ones are not limited. */
const MAX_COUNTERS = 10_000

/** Counts per name within the current minute, in this process. */
export class MinuteCounts {
  readonly #counts = new Map<string, number>()
  #endsAt = 0

  /** @returns the name's count in this minute, including `amount` */
  add(name: string, amount: number, now: number): number {
    if (now >= this.#endsAt) {
      this.#counts.clear()
      this.#endsAt = now + MINUTE_MS
    }
    const before = this.#counts.get(name)
    const count = (before ?? 0) + amount
    if (before !== undefined || this.#counts.size < MAX_COUNTERS) this.#counts.set(name, count)
    return count
  }

  /**
   * Sets the rate limit headers of the response.
   * @returns the error to throw
   */
  refusal(limit: LimitName, reason: string, max: number, reply: FastifyReply, now: number): ApiError {
    const ttl = this.#endsAt - now
    const seconds = Math.ceil(ttl / 1000)
    reply.headers({
      'ratelimit-limit': max,
      'ratelimit-remaining': 0,
      'ratelimit-reset': seconds,
      'retry-after': seconds,
    })
    return rateLimited(limit, reason, ttl)
  }
}
