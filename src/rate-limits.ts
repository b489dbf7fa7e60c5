import rateLimit, { normalizeIP, type RateLimitPluginOptions } from '@fastify/rate-limit'
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, preValidationAsyncHookHandler } from 'fastify'
import type { Redis } from 'ioredis'
import { ContractError } from './errors.js'
import { hashKey } from './keys.js'

export interface RateLimit {
  /** requests of one key in one window */
  max: number
  windowMs: number
}

/** Counters of keys and addresses that a process keeps at most. */
const MAX_COUNTERS = 10_000
/** A request that waits longer for its counter is let through. */
const REDIS_TIMEOUT_MS = 250
const WRONG_KEYS_WINDOW_MS = 60_000

/** Where all processes count together. */
export type Counters = Redis

/** Commands fail at once while Redis is away, which keeps nobody from starting. */
export async function openCounters(url: string, log: FastifyBaseLogger): Promise<Counters> {
  const { openRedis } = await import('./open-redis.js')
  const redis = openRedis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: REDIS_TIMEOUT_MS,
    connectTimeout: 2_000,
    retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
  })
  // The journal, which uses the same Redis, warns.
  redis.on('error', (error) => log.debug({ err: error }, 'the connection to Redis failed'))
  await redis.connect().catch(() => undefined)
  return redis
}

/** Makes `limitRate` available. Without Redis each process counts for itself. */
export function registerRateLimit(app: FastifyInstance, { max, windowMs }: RateLimit, counters: Counters | null): void {
  const options: RateLimitPluginOptions = {
    global: false,
    max,
    timeWindow: windowMs,
    enableDraftSpec: true,
    cache: MAX_COUNTERS,
    keyGenerator: ({ key }) => hashKey(key),
    errorResponseBuilder: (_request, { ttl }) =>
      rateLimited(`This key may make ${max} requests in ${windowMs / 1000} s.`, ttl),
    ...(counters && { redis: counters, nameSpace: 'tallyhouse:rate:' }),
  }
  app.register(rateLimit, options)
}

/**
 * Refuses the requests of a key that has made too many; after the authentication. Where the counter cannot be reached the
 * request passes: a limit is to protect the service, not to take it down.
 */
export function limitRate(app: FastifyInstance, log: FastifyBaseLogger): preValidationAsyncHookHandler {
  const limit = app.rateLimit()
  let isCounting = true
  const note = (counts: boolean, error?: unknown) => {
    if (counts === isCounting) return
    isCounting = counts
    if (counts) log.info('Redis counts the requests of keys again')
    else log.warn({ err: error }, 'Redis does not count the requests of keys; none is refused meanwhile')
  }
  return async function (request, reply) {
    try {
      await limit.call(this, request, reply)
      note(true)
    } catch (error) {
      const isRefusal = error instanceof ContractError
      note(isRefusal, error)
      if (isRefusal) throw error
    }
  }
}

/**
 * How many wrong keys each address has sent in the running minute, in this process. Only requests with a wrong key are ever
 * refused, so that whoever shares an address with a guesser is not locked out.
 */
export class WrongKeys {
  readonly #max: number
  readonly #log: FastifyBaseLogger
  readonly #counts = new Map<string, number>()
  #endsAt = 0

  /** @param max in a minute; 0 for any number */
  constructor(max: number, log: FastifyBaseLogger) {
    this.#max = max
    this.#log = log
  }

  /** @throws ContractError `rate_limited` where the address has sent too many */
  count(address: string, reply: FastifyReply, now = Date.now()): void {
    if (this.#max === 0) return
    if (now >= this.#endsAt) {
      this.#counts.clear()
      this.#endsAt = now + WRONG_KEYS_WINDOW_MS
    }
    const name = normalizeIP(address)
    const count = (this.#counts.get(name) ?? 0) + 1
    // Beyond, further addresses are not counted.
    if (count > 1 || this.#counts.size < MAX_COUNTERS) this.#counts.set(name, count)
    if (count <= this.#max) return
    if (count === this.#max + 1) this.#log.warn({ address: name }, 'an address sends many wrong keys')
    const ttl = this.#endsAt - now
    const seconds = Math.ceil(ttl / 1000)
    reply.headers({
      'ratelimit-limit': this.#max,
      'ratelimit-remaining': 0,
      'ratelimit-reset': seconds,
      'retry-after': seconds,
    })
    throw rateLimited('This address has sent too many wrong keys.', ttl)
  }
}

function rateLimited(reason: string, ttlMs: number): ContractError {
  return new ContractError('rate_limited', `${reason} Try again in ${Math.ceil(ttlMs / 1000)} s.`)
}
