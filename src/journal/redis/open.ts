import { Redis, type RedisOptions } from 'ioredis'
import { clusterConnector } from './cluster.js'
import { isSentinelUrl, parseSentinelUrl } from './url.js'

/** Excludes replyMapping, because the callers rely on the default shapes of replies. */
type ConnectionOptions = Omit<RedisOptions, 'replyMapping'>

/** Whether Redis has refused the database that the URL names. */
export function isDatabaseRefused(error: object): boolean {
  return 'command' in error && (error.command as { name?: string } | undefined)?.name === 'select'
}

/** Replies of a Redis that does not have the slot any more, has become a replica, or is cut off from its cluster. */
const WRONG_NODE = /^(READONLY|MOVED|CLUSTERDOWN)\b/

/**
 * A client that reconnects until `disconnect` is called. ioredis itself gives up if it cannot find the server: no node
 * of a cluster responds, or the Sentinels change the master while they are asked for it.
 */
class LastingRedis extends Redis {
  #isClosed = false
  #failures = 0

  constructor(...options: [ConnectionOptions] | [url: string, ConnectionOptions]) {
    super(...(options as [string, ConnectionOptions]))
    this.on('ready', () => {
      this.#failures = 0
    })
    this.on('end', () => this.#connectLater())
  }

  override disconnect(reconnect = false): void {
    if (!reconnect) this.#isClosed = true
    super.disconnect(reconnect)
  }

  #connectLater(): void {
    if (this.#isClosed) return
    const delayMs = this.options.retryStrategy?.(++this.#failures)
    if (typeof delayMs !== 'number') return
    const connect = () => {
      // A failure is emitted as an 'error' event.
      if (!this.#isClosed) this.connect().catch(() => undefined)
    }
    setTimeout(connect, delayMs).unref()
  }
}

/**
 * The only place that connects to Redis, so every form of REDIS_URL works wherever Redis is used.
 *
 * A Redis that has become a replica, or has lost the slot, is disconnected immediately, because it would refuse every
 * write on this connection. The next connection asks DNS, the Sentinels or the cluster again. A Redis without the
 * database is also disconnected: ioredis would use the first database instead.
 * @param url a list: the seeds of a Redis Cluster
 * @param key in a cluster, the connection is to the master of this key's slot
 * @throws Error if the URL is invalid, which the configuration has checked
 */
export function openRedis(url: string | readonly string[], options: ConnectionOptions, key = '{tallyhouse}'): Redis {
  const redis = connect(url, options, key)
  redis.on('error', (error) => {
    if (isDatabaseRefused(error)) redis.disconnect(true)
  })
  return redis
}

function connect(url: string | readonly string[], options: ConnectionOptions, key: string): Redis {
  const common: ConnectionOptions = { reconnectOnError: ({ message }) => WRONG_NODE.test(message), ...options }
  if (typeof url !== 'string') {
    return new LastingRedis(url[0] ?? '', { ...common, Connector: clusterConnector(url, key) })
  }
  if (!isSentinelUrl(url)) return new Redis(url, common)
  const master = parseSentinelUrl(url)
  if (!master) throw new Error('REDIS_URL is not a sentinel:// URL')
  // The detector listens to the Sentinels, so that we also leave a master that can reach us but not them.
  return new LastingRedis({
    ...common,
    ...master,
    failoverDetector: true,
    ...(common.commandTimeout !== undefined && { sentinelCommandTimeout: common.commandTimeout }),
  })
}
