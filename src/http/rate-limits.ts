import rateLimit, { normalizeIP, type RateLimitPluginOptions } from '@fastify/rate-limit'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  preValidationAsyncHookHandler,
  preValidationHookHandler,
} from 'fastify'
import type { Redis } from 'ioredis'
import { ApiError } from '../contract/errors.js'
import { hashKey } from '../keys/keys.js'
import { backoffMs } from '../lib/backoff.js'
import { clientAddress } from './client-address.js'

export interface RateLimit {
  /** requests of one key in one window */
  max: number
  windowMs: number
}

/** Counters of keys and addresses that a process keeps at most. */
const MAX_COUNTERS = 10_000
/** A request that waits longer for its counter is let through. */
const REDIS_TIMEOUT_MS = 250
const MINUTE_MS = 60_000

/** Where all processes count together. */
export type Counters = Redis

/** Commands fail at once while Redis is away, which keeps nobody from starting. */
export async function openCounters(url: string, log: FastifyBaseLogger): Promise<Counters> {
  const { openRedis } = await import('../lib/open-redis.js')
  const redis = openRedis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: REDIS_TIMEOUT_MS,
    connectTimeout: 2_000,
    retryStrategy: (times) => backoffMs({ firstMs: 100, maxMs: 1_000 }, times),
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
      const isRefusal = error instanceof ApiError
      note(isRefusal, error)
      if (isRefusal) throw error
    }
  }
}

/** How much each of many has used in the running minute, in this process. */
class MinuteCounts {
  readonly #counts = new Map<string, number>()
  #endsAt = 0

  /** @returns the count, this one included */
  add(name: string, amount: number, now: number): number {
    if (now >= this.#endsAt) {
      this.#counts.clear()
      this.#endsAt = now + MINUTE_MS
    }
    const before = this.#counts.get(name)
    const count = (before ?? 0) + amount
    // Beyond, further names are not counted.
    if (before !== undefined || this.#counts.size < MAX_COUNTERS) this.#counts.set(name, count)
    return count
  }

  /**
   * Says in the headers of an answer when the minute is over.
   * @returns the refusal
   */
  refusal(reason: string, max: number, reply: FastifyReply, now: number): ApiError {
    const ttl = this.#endsAt - now
    const seconds = Math.ceil(ttl / 1000)
    reply.headers({
      'ratelimit-limit': max,
      'ratelimit-remaining': 0,
      'ratelimit-reset': seconds,
      'retry-after': seconds,
    })
    return rateLimited(reason, ttl)
  }
}

/**
 * How many wrong keys each address has sent in the running minute, in this process. Only requests with a wrong key are ever
 * refused, so that whoever shares an address with a guesser is not locked out.
 */
export class WrongKeys {
  readonly #max: number
  readonly #log: FastifyBaseLogger
  readonly #counts = new MinuteCounts()

  /** @param max in a minute; 0 for any number */
  constructor(max: number, log: FastifyBaseLogger) {
    this.#max = max
    this.#log = log
  }

  /** @throws ContractError `rate_limited` where the address has sent too many */
  count(address: string, reply: FastifyReply, now = Date.now()): void {
    if (this.#max === 0) return
    const name = normalizeIP(address)
    const count = this.#counts.add(name, 1, now)
    if (count <= this.#max) return
    if (count === this.#max + 1) this.#log.warn({ address: name }, 'an address sends many wrong keys')
    throw this.#counts.refusal('This address has sent too many wrong keys.', this.#max, reply, now)
  }
}

/** Session calls in a minute; 0 for any number. */
export interface SessionLimit {
  ofAddress: number
  ofKey: number
}

/** Of a session, or of a body, that count like one more call. */
const BYTES_OF_CALL = 1024

/**
 * What session calls each address and each key has made in the running minute, in this process. The public key is known to
 * everybody, and every call writes the whole session, so a call counts for the size of its body and of the session that it
 * leaves. The limits are to stop a flood; no page and no office behind one address comes near the defaults.
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

  /** After the authentication; refuses a call with `rate_limited`. */
  readonly limit: preValidationHookHandler = (request, reply, done) => {
    const { rawBody } = request
    try {
      this.count(request, 1 + Math.floor((rawBody?.length ?? 0) / BYTES_OF_CALL), reply)
      done()
    } catch (refusal) {
      done(refusal as ApiError)
    }
  }

  /** Counts the session that a call has written; what is too much by it refuses the next call. */
  charge(request: FastifyRequest, bytes: number, now = Date.now()): void {
    const amount = Math.floor(bytes / BYTES_OF_CALL)
    if (amount === 0) return
    this.#ofAddress.add(addressOf(request), amount, now)
    this.#ofKey.add(request.keyId, amount, now)
  }

  /** @throws ContractError `rate_limited` */
  count(request: FastifyRequest, amount: number, reply: FastifyReply, now = Date.now()): void {
    const { ofAddress, ofKey } = this.#limit
    // Who is refused by its address uses up nothing of the key that all share.
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
    if (count - amount <= max) this.#log.warn({ [what]: name }, 'session calls are refused, as they come too often')
    throw counts.refusal(`This ${what} may make ${max} session calls in a minute, of 1 KiB each.`, max, reply, now)
  }
}

function addressOf(request: FastifyRequest): string {
  return normalizeIP(clientAddress(request))
}

function rateLimited(reason: string, ttlMs: number): ApiError {
  return new ApiError('rate_limited', `${reason} Try again in ${Math.ceil(ttlMs / 1000)} s.`)
}
