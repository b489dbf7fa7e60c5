import { type Config, journalUrls } from '../config.js'
import { isSentinelUrl } from '../journal/redis/url.js'

/** Whether the servers of a configuration are a Redis Cluster. Remembered because each lane is opened separately. */
const clusters = new WeakMap<object, Promise<boolean>>()

type RedisSettings = Pick<Config, 'REDIS_URL' | 'LANES'>

/**
 * Finds the Redis of a lane's journal.
 * @returns its URL, or the list of seed nodes of a Redis Cluster
 * @throws Error that says what to do if none of several servers answers, or if their number differs from the number of
 * lanes
 */
export async function redisForLane(config: RedisSettings, lane: number): Promise<string | readonly string[]> {
  const urls = journalUrls(config)
  const [first = ''] = urls
  if (urls.length === 1 && config.LANES === 1) return first
  if (!urls.some(isSentinelUrl) && (await areCluster(config, urls))) return urls
  if (urls.length === 1) return first
  if (urls.length === config.LANES) return urls[lane] ?? first
  throw new Error(
    `REDIS_URL names ${urls.length} servers, but there are ${config.LANES} lanes. Name one for all lanes, one for each, or nodes of a Redis Cluster.`,
  )
}

function areCluster(config: RedisSettings, urls: string[]): Promise<boolean> {
  const known = clusters.get(config) ?? ask(urls)
  clusters.set(config, known)
  known.catch(() => clusters.delete(config))
  return known
}

async function ask(urls: string[]): Promise<boolean> {
  const { isRedisCluster } = await import('../journal/redis/cluster.js')
  return await isRedisCluster(urls).catch((cause) => {
    throw new Error('Redis cannot be reached or used. Check REDIS_URL.', { cause })
  })
}
