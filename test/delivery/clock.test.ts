import t from 'tap'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import { nextPosition, START } from '../../src/model/position.js'
import { silent, startClickHouse, startService } from '../helper.js'
import { Ledger } from './ledger.js'
import { assertFlawless, Producer } from './producer.js'
import { databaseOf, journalFor } from './servers.js'

const HOUR_MS = 3_600_000

/** For Node to load before the service: a clock that is an hour fast until a signal sets it right. */
const FAST_CLOCK = `
  const now = Date.now
  let ahead = ${HOUR_MS}
  Date.now = () => now() + ahead
  process.on('SIGUSR2', () => { ahead = 0 })`

const engine = await startClickHouse(t)

t.test('lmdb: the clock of the service jumps back by an hour, and again at a restart', async (t) => {
  const { settings } = await journalFor(t, 'lmdb')
  const env = { ...settings, CLICKHOUSE_URL: databaseOf(engine.url) }
  const preload = `--import=data:text/javascript,${encodeURIComponent(FAST_CLOCK)}`
  let service = await startService(t, { ...env, NODE_OPTIONS: preload })
  const ledger = new Ledger()
  const producer = new Producer(ledger, () => service.url)
  const send = async () => {
    for (const count of [1, 100, 1]) t.equal(await producer.send(count), 'answered')
    t.equal(await producer.insist(), 1)
  }
  await send()
  service.process.kill('SIGUSR2')
  await send()
  await assertFlawless(t, ledger, service.url)
  await send()
  service.process.kill('SIGKILL')
  await service.ended
  service = await startService(t, env)
  await send()
  await assertFlawless(t, ledger, service.url)
})

t.test('redis: its clock is an hour behind the positions that it has assigned', async (t) => {
  const { settings, redis } = await journalFor(t, 'redis')
  if (!redis) return t.fail('there is a Redis')
  // Positions come from the clock of Redis, which cannot be set here. So the test moves the last position to where a
  // clock an hour ahead would have put it.
  const journal = await openRedisJournal({ url: redis.url, maxBytes: 1e9, log: silent })
  await journal.advancePast(nextPosition(START, Date.now() + HOUR_MS))
  await journal.close()
  const env = { ...settings, CLICKHOUSE_URL: databaseOf(engine.url) }
  let service = await startService(t, env)
  const ledger = new Ledger()
  const producer = new Producer(ledger, () => service.url)
  for (const count of [1, 100, 1]) t.equal(await producer.send(count), 'answered')
  await assertFlawless(t, ledger, service.url)
  await producer.send(10)
  service.process.kill('SIGKILL')
  await service.ended
  service = await startService(t, env)
  t.equal(await producer.insist(), 1)
  await assertFlawless(t, ledger, service.url)
})
