import { Redis } from 'ioredis'
import t from 'tap'
import { startClickHouse, startService, until } from '../helper.js'
import { Ledger } from './ledger.js'
import { assertFlawless, Producer } from './producer.js'
import { BLOCK, databaseOf, journalFor } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

/** The key of the journal in Redis. */
const LEASE = '{tallyhouse}:writer'

const engine = await startClickHouse(t)

t.test('redis: a writer that is paused in an INSERT and resumes when another has its lease', async (t) => {
  const { settings } = await journalFor(t, 'redis')
  const database = databaseOf(engine.url)
  const proxy = await TcpProxy.open(t, database)
  const sleeper = await startService(t, { ...settings, CLICKHOUSE_URL: proxy.url })
  const ledger = new Ledger()
  const first = new Producer(ledger, () => sleeper.url)
  await first.send()
  await assertFlawless(t, ledger, sleeper.url)

  const late = proxy.hold(BLOCK)
  await first.send(200)
  await late.held
  sleeper.process.kill('SIGSTOP')
  const other = await startService(t, { ...settings, CLICKHOUSE_URL: database })
  const second = new Producer(ledger, () => other.url)
  await second.send(100)
  await assertFlawless(t, ledger, other.url)

  // The block that the other one has stored arrives again, and then the next steps of its writer.
  sleeper.process.kill('SIGCONT')
  await late.release()
  for (const producer of [first, second, first]) t.equal(await producer.send(50), 'answered')
  await assertFlawless(t, ledger, sleeper.url)
  other.process.kill('SIGKILL')
  await other.ended
  t.equal(await first.send(50), 'answered')
  await assertFlawless(t, ledger, sleeper.url)
})

t.test('lmdb: a service that is paused in an INSERT and resumes', async (t) => {
  const { settings } = await journalFor(t, 'lmdb')
  const proxy = await TcpProxy.open(t, databaseOf(engine.url))
  const service = await startService(t, { ...settings, CLICKHOUSE_URL: proxy.url })
  const ledger = new Ledger()
  const producer = new Producer(ledger, () => service.url)
  const late = proxy.hold(BLOCK)
  await producer.send(200)
  await late.held
  service.process.kill('SIGSTOP')
  await late.release()
  const waiting = producer.send()
  service.process.kill('SIGCONT')
  t.equal(await waiting, 'answered')
  await assertFlawless(t, ledger, service.url)
})

t.test('redis: two concurrent writers, as if the lease were lost again and again', async (t) => {
  const { settings, redis } = await journalFor(t, 'redis')
  if (!redis) return t.fail('there is a Redis')
  const database = databaseOf(engine.url)
  const direct = new Redis(redis.url)
  t.teardown(() => direct.disconnect())
  const proxies = await Promise.all([1, 2].map(() => TcpProxy.open(t, database)))
  const services = []
  for (const { url } of proxies) services.push(await startService(t, { ...settings, CLICKHOUSE_URL: url }))
  const ledger = new Ledger()
  const producers = services.map(({ url }) => new Producer(ledger, () => url))
  const blocks = proxies.map((proxy) => proxy.watch(BLOCK))
  // An INSERT takes long enough for the other writer to begin the same block.
  for (const proxy of proxies) proxy.delayMs = 5
  await until('five blocks of each', async () => {
    await direct.del(LEASE)
    await Promise.all(producers.map((producer, i) => producer.send(i === 0 ? 1 : 20)))
    return blocks.every(({ seen }) => seen >= 5)
  })
  for (const { url } of services) await assertFlawless(t, ledger, url)
})

t.test('lmdb: a second service on the same folder is refused, and harms nothing', async (t) => {
  const { settings } = await journalFor(t, 'lmdb')
  const env = { ...settings, CLICKHOUSE_URL: databaseOf(engine.url) }
  const service = await startService(t, env)
  const ledger = new Ledger()
  const producer = new Producer(ledger, () => service.url)
  await producer.send(100)
  await t.rejects(startService(t, env), /is in use by process/)
  await producer.send(100)
  await assertFlawless(t, ledger, service.url)
})
