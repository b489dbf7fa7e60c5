import { once } from 'node:events'
import { Redis } from 'ioredis'
import t from 'tap'
import { openRedisJournal } from '../../../src/journal/redis/journal.js'
import { openRedis } from '../../../src/journal/redis/open.js'
import { TcpProxy } from '../../delivery/tcp-proxy.js'
import { silent, startRedis, until } from '../../helper.js'
import { RedisCluster } from '../../redis-cluster.js'
import { startSentinel } from '../../sentinel.js'

const OPTIONS = { enableOfflineQueue: false, maxRetriesPerRequest: 0, commandTimeout: 20_000, retryStrategy: () => 20 }
const LIMIT_MS = 30_000

t.test('openRedis reaches the new master if the Sentinels change it while they are asked', async (t) => {
  const { master, port, sentinel } = await startSentinel(t)
  const proxy = await TcpProxy.open(t, `redis://127.0.0.1:${port}`)
  const redis = openRedis(`sentinel://:s%2Fcret@127.0.0.1:${new URL(proxy.url).port}/main`, OPTIONS)
  redis.on('error', () => undefined)
  t.teardown(() => redis.disconnect())
  await once(redis, 'ready')
  const listens = async () => String(await sentinel.call('CLIENT', 'LIST')).includes(' sub=1 ')
  await until('it to listen to the Sentinel', listens)

  const { held, release } = proxy.hold('get-master-addr-by-name')
  const admin = new Redis(master.url, { password: 's/cret' })
  t.teardown(() => admin.disconnect())
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  await held
  await sentinel.call('SENTINEL', 'FAILOVER', 'main')
  await until('it to be told', async () => !(await listens()))
  await release()
  const { port: before } = new URL(master.url)
  await until(
    'the new master',
    async () => {
      if (redis.status !== 'ready' || String(redis.stream.remotePort) === before) return false
      return (await redis.set('a', 'b').catch(() => null)) === 'OK'
    },
    LIMIT_MS,
  )
})

t.test('openRedis reconnects to a cluster whose nodes were all down for a while', async (t) => {
  const cluster = await RedisCluster.start(t, 1)
  const redis = openRedis(cluster.urls, OPTIONS)
  let failures = 0
  redis.on('error', () => failures++)
  t.teardown(() => redis.disconnect())
  await once(redis, 'ready')
  const { server } = cluster.node(0)
  await server.kill()
  await until('a failure', () => failures > 0)
  await server.restart()
  await until('the cluster', async () => (await redis.set('{tallyhouse}', 'b').catch(() => null)) === 'OK', LIMIT_MS)
})

t.test('openRedis does not reconnect after disconnect', async (t) => {
  const { port } = await startSentinel(t)
  let retries = 0
  const retryStrategy = () => ++retries
  const redis = openRedis(`sentinel://:s%2Fcret@127.0.0.1:${port}/main`, { ...OPTIONS, retryStrategy })
  await once(redis, 'ready')
  redis.disconnect()
  await once(redis, 'end')
  t.equal(retries, 0)
})

t.test('openRedis uses no other database if Redis does not have the requested one', async (t) => {
  const { url } = await startRedis(t, ['--databases', '2'])
  const open = async (database: number) => {
    const journal = await openRedisJournal({ url: `${url}/${database}`, maxBytes: 1e6, log: silent })
    t.teardown(() => journal.close())
  }
  await t.rejects(open(2), {
    message: /^Redis refuses the database of REDIS_URL: "ERR .*"\. Use a database that exists/,
  })
  await open(1)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  t.match(await redis.info('keyspace'), /^db1:/m)
  t.notMatch(await redis.info('keyspace'), /^db0:/m)
})
