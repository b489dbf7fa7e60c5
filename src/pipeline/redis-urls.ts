import { type Config, journalUrls } from '../config.js'
import { isSentinelUrl } from '../lib/redis-url.js'

/** Whether the servers are a cluster, by the configuration that names them: lanes are opened one by one. */
const clusters = new WeakMap<object, Promise<boolean>>()

type RedisSettings = Pick<Config, 'REDIS_URL' | 'LANES'>

/**
 * Where the journal of a lane is: the one Redis, or that of the lane; or, as a list, the seeds of a Redis Cluster.
 * @throws Error that says what to do if none of several servers answers, or if they are not as many as lanes
 */
export async function redisOf(config: RedisSettings, lane: number): Promise<string | readonly string[]> {
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
  const { isRedisCluster } = await import('../lib/redis-cluster.js')
  return await isRedisCluster(urls).catch((cause) => {
    throw new Error('Redis cannot be reached or used. Check REDIS_URL.', { cause })
  })
}
