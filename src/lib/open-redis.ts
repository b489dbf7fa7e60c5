import { Redis, type RedisOptions } from 'ioredis'
import { isSentinelUrl, parseSentinelUrl } from './redis-url.js'

/** Replies have the shapes that they have by default. */
type ConnectionOptions = Omit<RedisOptions, 'replyMapping'>

/**
 * The one place that connects to Redis: every form of REDIS_URL works wherever Redis is used.
 *
 * A Redis that has become a replica is left at once, as it would refuse every write for as long as the connection lives:
 * the next connection goes to where the name, the address or the Sentinels say by then.
 * @throws Error where the URL is none, which the configuration has checked
 */
export function openRedis(url: string, options: ConnectionOptions): Redis {
  const common: ConnectionOptions = { reconnectOnError: ({ message }) => message.startsWith('READONLY'), ...options }
  if (!isSentinelUrl(url)) return new Redis(url, common)
  const master = parseSentinelUrl(url)
  if (!master) throw new Error('REDIS_URL is no sentinel:// URL')
  // The detector listens to the Sentinels, so that a master which lost them but not us is left as well.
  return new Redis({
    ...common,
    ...master,
    failoverDetector: true,
    ...(common.commandTimeout !== undefined && { sentinelCommandTimeout: common.commandTimeout }),
  })
}
