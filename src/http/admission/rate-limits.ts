import rateLimit, { type RateLimitPluginOptions } from '@fastify/rate-limit'
import type { FastifyBaseLogger, FastifyInstance, preValidationAsyncHookHandler } from 'fastify'
import type { Redis } from 'ioredis'
import { ApiError, rateLimited } from '../../contract/errors.js'
import { hashKey } from '../../keys/keys.js'
import { backoffMs } from '../../lib/backoff.js'

export interface RateLimit {
  /** requests of one key per window */
  max: number
  windowMs: number
}

/** Maximum number of keys that a process counts without Redis; the least recently used is evicted. */
const MAX_COUNTERS = 10_000
/** A request that waits longer for its counter passes. */
const REDIS_TIMEOUT_MS = 250

/** The Redis that holds the counters of all processes. */
export type Counters = Redis

/**
 * Connects to Redis. While it is unavailable, commands fail immediately, and the service can still
 * start.
 * @param url of a Redis or of its Sentinels; a list: the seeds of a Redis Cluster
 */
export async function openCounters(url: string | readonly string[], log: FastifyBaseLogger): Promise<Counters> {
  const { openRedis } = await import('../../journal/redis/open.js')
  const redis = openRedis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: REDIS_TIMEOUT_MS,
    connectTimeout: 2_000,
    retryStrategy: (times) => backoffMs({ firstMs: 100, maxMs: 1_000 }, times),
  })
  // The journal uses the same Redis and warns.
  redis.on('error', (error) => log.debug({ err: error }, 'the connection to Redis failed'))
  await redis.connect().catch(() => undefined)
  return redis
}

/**
 * Registers the plugin that `limitRate` needs. Without Redis, each process counts separately.
 * @param isCluster whether the counters have to be in the slot of the connection
 */
export function registerRateLimit(
  app: FastifyInstance,
  { max, windowMs }: RateLimit,
  counters: Counters | null,
  isCluster: boolean,
): void {
  const options: RateLimitPluginOptions = {
    global: false,
    max,
    timeWindow: windowMs,
    enableDraftSpec: true,
    cache: MAX_COUNTERS,
    // Do not use the stored hash, because everyone with access to Redis can see the names of counters.
    keyGenerator: ({ grant }) => hashKey(`rate ${grant?.hash}`),
    errorResponseBuilder: (_request, { ttl }) =>
      rateLimited('requests', `This key may make ${max} requests in ${windowMs / 1000} s.`, ttl, max),
    ...(counters && { redis: counters, nameSpace: isCluster ? '{tallyhouse}:rate:' : 'tallyhouse:rate:' }),
  }
  app.register(rateLimit, options)
}

/**
 * Refuses requests of a key over its limit; runs after the authentication. If the counter is
 * unavailable the request passes: the limit protects the service and must not take it down.
 */
export function limitRate(app: FastifyInstance, log: FastifyBaseLogger): preValidationAsyncHookHandler {
  const limit = app.rateLimit()
  let isCounting = true
  const note = (isAvailable: boolean, error?: unknown) => {
    if (isAvailable === isCounting) return
    isCounting = isAvailable
    if (isAvailable) log.info('rate limits of keys are enforced again: Redis is available')
    else log.warn({ err: error }, 'rate limits of keys are not enforced: Redis is unavailable')
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
