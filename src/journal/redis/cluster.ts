import { createConnection, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { AbstractConnector, Redis, type RedisOptions } from 'ioredis'

/** How long a seed may take to connect, and then to reply, ms. */
const SEED_WAIT_MS = 1_000

interface Address {
  host: string
  port: number
}

/**
 * Connects to the current master of a key's slot in a Redis Cluster. Each connection asks the next seed first, because
 * a seed may be cut off from the others. If no seed responds, it asks nodes that a seed named earlier.
 * @param seeds redis:// or rediss:// URLs of some nodes; user, password and TLS of the first one apply to all
 */
export function clusterConnector(seeds: readonly string[], key: string): NonNullable<RedisOptions['Connector']> {
  let next = 0
  let nodes: Address[] = []

  return class ClusterConnector extends AbstractConnector {
    readonly #options: RedisOptions

    constructor(options: unknown) {
      super((options as { disconnectTimeout: number }).disconnectTimeout)
      this.#options = options as RedisOptions
    }

    override async connect(): Promise<Socket> {
      this.connecting = true
      const address = await this.#master()
      if (!this.connecting) throw new Error('the connection was closed')
      const { tls } = this.#options
      const stream = tls ? connectTls({ ...address, ...tls }) : createConnection(address)
      stream.once('error', (error) => {
        this.firstError = error
      })
      this.stream = stream
      return stream
    }

    async #master(): Promise<Address> {
      const first = next++
      const asked = [...seeds.map((_, i) => seeds[(first + i) % seeds.length] ?? ''), ...nodes]
      let lastError: unknown = new Error('REDIS_URL has no seeds')
      for (const seed of asked) {
        if (!this.connecting) break
        try {
          const known = await withSeed(seed, this.#options, (redis) => fetchMasters(redis, key))
          nodes = known.nodes
          return known.master
        } catch (error) {
          lastError = error
        }
      }
      throw lastError
    }
  }
}

/**
 * Whether the servers are nodes of a Redis Cluster, according to the first one that responds.
 * @throws the error of the last server if none responds
 */
export async function isRedisCluster(urls: readonly string[]): Promise<boolean> {
  let lastError: unknown = new Error('no URL was given')
  for (const url of urls) {
    try {
      return await withSeed(url, {}, async (redis) => (await redis.info('server')).includes('redis_mode:cluster'))
    } catch (error) {
      lastError = error
    }
  }
  throw lastError
}

/** @param options user, password and TLS for nodes that a seed named */
async function withSeed<T>(
  seed: string | Address,
  { username, password, tls }: RedisOptions,
  ask: (redis: Redis) => Promise<T>,
): Promise<T> {
  const options: Omit<RedisOptions, 'replyMapping' | 'tls'> = {
    lazyConnect: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
    enableReadyCheck: false,
    connectTimeout: SEED_WAIT_MS,
    commandTimeout: SEED_WAIT_MS,
  }
  const login = { ...(username && { username }), ...(password && { password }), ...(tls && { tls }) }
  const redis = typeof seed === 'string' ? new Redis(seed, options) : new Redis({ ...options, ...seed, ...login })
  // A failure also rejects the call.
  redis.on('error', () => undefined)
  try {
    await redis.connect()
    return await ask(redis)
  } finally {
    redis.disconnect()
  }
}

/** The master of a key's slot, and all masters. */
async function fetchMasters(redis: Redis, key: string): Promise<{ master: Address; nodes: Address[] }> {
  const slot = Number(await redis.call('CLUSTER', 'KEYSLOT', key))
  const ranges = (await redis.call('CLUSTER', 'SLOTS')) as [number, number, [string | null, number]][]
  const toAddress = ([host, port]: [string | null, number]): Address => {
    // A node that does not know its own address is the node that we asked.
    return { host: host && host !== '?' ? host : (redis.options.host ?? '127.0.0.1'), port: Number(port) }
  }
  const range = ranges.find(([from, to]) => slot >= from && slot <= to)
  if (!range) throw new Error(`no node of the cluster has slot ${slot} of ${key}`)
  return { master: toAddress(range[2]), nodes: ranges.map(([, , master]) => toAddress(master)) }
}
