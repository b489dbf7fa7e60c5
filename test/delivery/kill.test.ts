import t from 'tap'
import { type Service, startClickHouse, startService, until } from '../helper.js'
import { Ledger } from './ledger.js'
import { assertFlawless, Producer } from './producer.js'
import { BLOCK, databaseOf, enginePid, JOURNALS, journalFor } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

const engine = await startClickHouse(t)

for (const journal of JOURNALS) {
  t.test(`with ${journal}`, async (t) => {
    t.test('SIGKILL of the service in the middle of an import', async (t) => {
      const { settings } = await journalFor(t, journal)
      const env = { ...settings, CLICKHOUSE_URL: databaseOf(engine.url) }
      let service = await startService(t, env)
      const ledger = new Ledger()
      const producers = [1, 2, 3].map(() => new Producer(ledger, () => service.url))
      let answered = 0
      const importing = producers.map(async (producer) => {
        for (let i = 0; i < 40; i++) {
          await producer.insist(i % 4 === 0 ? 1 : 200)
          answered++
        }
      })
      for (const count of [15, 60]) {
        await until(`${count} answers`, () => answered >= count)
        service.process.kill('SIGKILL')
        t.equal(await service.ended, 'SIGKILL')
        t.ok(answered < 120, `it was killed in the middle, after ${answered} calls`)
        service = await startService(t, env)
      }
      await Promise.all(importing)
      await assertFlawless(t, ledger, service.url)
    })

    t.test('SIGKILL of the writer after an INSERT, before the journal knows of it', async (t) => {
      const { settings } = await journalFor(t, journal)
      const proxy = await TcpProxy.open(t, databaseOf(engine.url))
      const env = { ...settings, CLICKHOUSE_URL: proxy.url }
      let service: Service = await startService(t, env)
      const ledger = new Ledger()
      const producer = new Producer(ledger, () => service.url)
      for (const count of [1, 300]) {
        const stored = proxy.loseReply(BLOCK, 'silence')
        await producer.send(count)
        await stored
        // The following entries must not become part of the block when it is repeated.
        await producer.send()
        service.process.kill('SIGKILL')
        await service.ended
        service = await startService(t, env)
        await producer.send()
      }
      await assertFlawless(t, ledger, service.url)
    })

    t.test('SIGKILL of the embedded ClickHouse in the middle of an import', async (t) => {
      const { settings, dataDir } = await journalFor(t, journal)
      const service = await startService(t, settings)
      const ledger = new Ledger()
      const producer = new Producer(ledger, () => service.url)
      for (let kills = 0; kills < 2; kills++) {
        for (let i = 0; i < 10; i++) t.equal(await producer.send(200), 'answered')
        const pid = await enginePid(dataDir)
        process.kill(pid, 'SIGKILL')
        for (let i = 0; i < 10; i++) t.equal(await producer.send(200), 'answered', 'events are taken meanwhile')
        await until('another engine', async () => (await enginePid(dataDir).catch(() => pid)) !== pid)
      }
      await assertFlawless(t, ledger, service.url)
    })
  })
}

t.test('SIGKILL of Redis, which has everything it acknowledged on disk', async (t) => {
  const { settings, redis } = await journalFor(t, 'redis')
  const service = await startService(t, { ...settings, CLICKHOUSE_URL: databaseOf(engine.url) })
  if (!redis) return t.fail('there is a Redis')
  const ledger = new Ledger()
  const producers = [1, 2, 3].map(() => new Producer(ledger, () => service.url))
  let answered = 0
  const importing = producers.map(async (producer, k) => {
    for (let i = 0; i < 40; i++) {
      // One client does not repeat its call: the service finds out whether it was carried out.
      if (k === 0) await producer.send(200)
      else await producer.insist(i % 4 === 0 ? 1 : 200)
      answered++
    }
  })
  for (const count of [15, 60]) {
    await until(`${count} answers`, () => answered >= count)
    await redis.kill()
    await redis.restart()
  }
  await Promise.all(importing)
  await assertFlawless(t, ledger, service.url)
})
