import t, { type Test } from 'tap'
import { PUBLIC_KEY, SECRET_KEY, startClickHouse, startService, until } from '../helper.js'
import { RedisPair } from '../redis-pair.js'
import { startSentinel } from '../sentinel.js'
import { FLAWLESS, Ledger } from './ledger.js'
import { assertFlawless, Producer, walk } from './producer.js'
import { databaseOf } from './servers.js'

const KILLS = 10
const LAG_MS = 300

const engine = await startClickHouse(t)

/**
 * Starts two processes that accept events, one of them the writer, and clients that send one call after the other until
 * stopped.
 */
async function start(t: Test, redis: Record<string, string>) {
  const env = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', CLICKHOUSE_URL: databaseOf(engine.url) }
  const services = [
    await startService(t, { ...env, ...redis }),
    await startService(t, { ...env, ...redis, ROLE: 'api' }),
  ]
  const ledger = new Ledger()
  let isOver = false
  let answered = 0
  t.teardown(() => {
    isOver = true
  })
  const sending = services.flatMap(({ url }) =>
    [1, 1, 50].map(async (count) => {
      const producer = new Producer(ledger, () => url)
      while (!isOver) {
        if ((await producer.send(count)) === 'answered') answered++
      }
    }),
  )
  return {
    url: services[0]?.url ?? '',
    ledger,
    /** Waits until this many more calls have been answered. */
    more: async (calls: number) => {
      const wanted = answered + calls
      await until(`${calls} more answers`, () => answered >= wanted)
    },
    stop: async () => {
      isOver = true
      await Promise.all(sending)
    },
  }
}

t.test(`REDIS_REPLICAS=1: the master is killed ${KILLS} times, and nothing is lost`, async (t) => {
  const pair = await RedisPair.start(t)
  const { url, ledger, more, stop } = await start(t, { REDIS_URL: pair.url, REDIS_REPLICAS: '1' })
  for (let kills = 0; kills < KILLS; kills++) {
    await more(50)
    await pair.failOver()
    await pair.addReplica()
  }
  await more(50)
  await stop()
  await assertFlawless(t, ledger, url)
  t.strictSame(ledger.sharedIds, [])
})

t.test(
  `a replica that is ${LAG_MS} ms behind: a failover loses only the writes that it has not received`,
  async (t) => {
    const pair = await RedisPair.start(t, LAG_MS)
    const { url, ledger, more, stop } = await start(t, { REDIS_URL: pair.url })
    for (let kills = 0; kills < 3; kills++) {
      await more(300)
      await pair.failOver()
      await pair.addReplica()
    }
    await more(300)
    await stop()
    const verdict = await until('a complete walk', () => ledger.verdict(walk(url)).catch(() => undefined))
    t.comment(`${verdict.lost} of ${ledger.answered} answered events are lost`)
    t.match({ ...verdict, lost: 0, examples: [] }, FLAWLESS)
    t.strictSame(ledger.sharedIds, [])
  },
)

t.test('Sentinel names another master, and the service goes there', async (t) => {
  const { master, port } = await startSentinel(t)
  const REDIS_URL = `sentinel://:s%2Fcret@127.0.0.1:1,127.0.0.1:${port}/main?db=3`
  // The rate limits of keys use the same Redis.
  const { url, ledger, more, stop } = await start(t, { REDIS_URL, RATE_LIMIT: '1000000' })
  await more(50)
  await master.kill()
  // A Sentinel that had no CPU for 2 s distrusts its clock, and promotes nobody for 30 s.
  await more(200).catch(() => more(200))
  await stop()
  const verdict = await until('a complete walk', () => ledger.verdict(walk(url)).catch(() => undefined))
  t.match({ ...verdict, lost: 0, examples: [] }, FLAWLESS)
})
