import { once } from 'node:events'
import t, { type Test } from 'tap'
import { type Service, startClickHouse, startRedis, startService, until } from '../helper.js'
import { Ledger } from './ledger.js'
import { assertFlawless, Producer } from './producer.js'
import { databaseOf, journalFor } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

/**
 * Limits files to 8 MB, on any system and without being root. A write beyond that fails like one on a full disk;
 * without the trap, the signal would end the process.
 */
const SMALL_FILES = "trap '' XFSZ; ulimit -f 8000"
const MAX_CALLS = 400

const engine = await startClickHouse(t)

/** Fills the journal while ClickHouse is unavailable until nothing more is accepted, and lets it drain. */
async function fillAndDrain(t: Test, service: Service, clickhouse: TcpProxy): Promise<void> {
  const ledger = new Ledger()
  const producer = new Producer(ledger, () => service.url)
  t.equal(await producer.send(1000), 'answered')
  for (let round = 1; round <= 2; round++) {
    clickhouse.cut()
    let refused = 0
    for (let calls = 0; refused < 5 && calls < MAX_CALLS; calls++) {
      const outcome = await producer.send(1000)
      if (outcome === 'unknown') t.fail('a journal that is full says so')
      if (outcome === 'refused') refused++
    }
    t.equal(refused, 5, `it was full after ${ledger.answered} events`)
    t.equal((await fetch(`${service.url}/health/live`)).status, 200)
    clickhouse.restore()
    await until('it takes events again', async () => (await producer.send(1000)) === 'answered')
    await assertFlawless(t, ledger, service.url)
  }
}

t.test('lmdb on a full disk', async (t) => {
  const { settings } = await journalFor(t, 'lmdb')
  const clickhouse = await TcpProxy.open(t, databaseOf(engine.url))
  const service = await startService(t, { ...settings, CLICKHOUSE_URL: clickhouse.url }, SMALL_FILES)
  await fillAndDrain(t, service, clickhouse)
})

t.test('Redis at its maxmemory', async (t) => {
  const { settings } = await journalFor(t, 'lmdb')
  const redis = await startRedis(t, ['--maxmemory', '16mb', '--maxmemory-policy', 'noeviction'])
  const clickhouse = await TcpProxy.open(t, databaseOf(engine.url))
  const service = await startService(t, { ...settings, REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url })
  await fillAndDrain(t, service, clickhouse)
})

for (const journal of ['lmdb', 'redis'] as const) {
  t.test(`${journal} above the limit that was set for it`, async (t) => {
    const { settings } = await journalFor(t, journal)
    const clickhouse = await TcpProxy.open(t, databaseOf(engine.url))
    const env = { ...settings, CLICKHOUSE_URL: clickhouse.url, JOURNAL_MAX_BYTES: '2000000' }
    await fillAndDrain(t, await startService(t, env), clickhouse)
  })
}

t.test('Redis ends on a full disk, and is started again where there is room', async (t) => {
  const { settings } = await journalFor(t, 'lmdb')
  const redis = await startRedis(t, [], SMALL_FILES)
  const env = { ...settings, REDIS_URL: redis.url, CLICKHOUSE_URL: databaseOf(engine.url) }
  const service = await startService(t, env)
  const ledger = new Ledger()
  const producers = [1, 2].map(() => new Producer(ledger, () => service.url))
  const ended = once(redis.process, 'exit')
  let isOver = false
  const sending = producers.map(async (producer) => {
    while (!isOver) await producer.insist(1000)
  })
  await ended
  await redis.restart()
  isOver = true
  await Promise.all(sending)
  await assertFlawless(t, ledger, service.url)
})
