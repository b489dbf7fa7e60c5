import t from 'tap'
import { ACKNOWLEDGE, CLAIM, WRITE } from '../../src/journal/redis/scripts.js'
import { SECRET_KEY, startClickHouse, startService, until } from '../helper.js'
import { Ledger } from './ledger.js'
import { assertFlawless, Producer } from './producer.js'
import { BLOCK, databaseOf, JOURNALS, journalFor } from './servers.js'
import { clickHouseError, httpAnswer, TcpProxy } from './tcp-proxy.js'

const engine = await startClickHouse(t)

const TOO_MANY_PARTS = clickHouseError(252, 'TOO_MANY_PARTS', 'Too many parts (3000)')
const OUT_OF_MEMORY = clickHouseError(241, 'MEMORY_LIMIT_EXCEEDED', 'Query memory limit exceeded: would use 9.32 GiB')

/** What can happen to an INSERT on its way; each is over when the promise resolves. */
const CLICKHOUSE_FAULTS: Record<string, (clickhouse: TcpProxy) => Promise<void>> = {
  'the reply is lost': (clickhouse) => clickhouse.loseReply(BLOCK),
  // The embedded engine does not survive this (SIGABRT, chdb 26.7), and is started again; a server does.
  'the request is cut in the middle': (clickhouse) => clickhouse.loseRequest(BLOCK),
  'too many parts': (clickhouse) => clickhouse.answer(BLOCK, TOO_MANY_PARTS, 3),
  'out of memory': (clickhouse) => clickhouse.answer(BLOCK, OUT_OF_MEMORY, 3),
  'an error though the INSERT was done': (clickhouse) => clickhouse.replaceReply(BLOCK, OUT_OF_MEMORY),
  'a 500 of something in between': (clickhouse) => clickhouse.answer(BLOCK, httpAnswer(500, 'Oh no'), 2),
  'a 200 that is cut': (clickhouse) => clickhouse.replaceReply(BLOCK, httpAnswer(200, 'x'.repeat(9)).slice(0, -5)),
}

for (const journal of JOURNALS) {
  t.test(`ClickHouse and ${journal}`, async (t) => {
    const { settings } = await journalFor(t, journal)
    const clickhouse = await TcpProxy.open(t, databaseOf(engine.url))
    const service = await startService(t, { ...settings, CLICKHOUSE_URL: clickhouse.url })
    const ledger = new Ledger()
    const producer = new Producer(ledger, () => service.url)
    for (const [name, fault] of Object.entries(CLICKHOUSE_FAULTS)) {
      t.test(name, async (t) => {
        const over = fault(clickhouse)
        for (const count of [1, 100, 1]) t.equal(await producer.send(count), 'answered')
        await over
        t.equal(await producer.send(10), 'answered')
        await assertFlawless(t, ledger, service.url)
      })
    }

    t.test('late and cut at random', async (t) => {
      clickhouse.delayMs = 20
      for (let i = 0; i < 5; i++) {
        const blocks = clickhouse.watch(BLOCK)
        t.equal(await producer.send(100), 'answered')
        await until('a block', () => blocks.seen > 0)
        clickhouse.cut()
        t.equal(await producer.send(), 'answered')
        clickhouse.restore()
      }
      clickhouse.delayMs = 0
      await assertFlawless(t, ledger, service.url)
    })
  })

  t.test(`clients whose answers are lost, with ${journal}`, async (t) => {
    const { settings } = await journalFor(t, journal)
    const env = { ...settings, CLICKHOUSE_URL: databaseOf(engine.url) }
    let service = await startService(t, env)
    const front = await TcpProxy.open(t, service.url)

    t.test('events that are repeated with their key are stored once, under their first id', async (t) => {
      const ledger = new Ledger()
      const producer = new Producer(ledger, () => front.url)
      for (const count of [1, 100]) {
        const lost = front.loseReply('idempotency-key')
        t.equal(await producer.insist(count), 2)
        await lost
        const late = front.loseRequest('idempotency-key')
        t.equal(await producer.insist(count), 2)
        await late
      }
      await assertFlawless(t, ledger, service.url)
    })

    const change = (url: string, key: string, body: object = { $add: { calls: 1 } }) =>
      fetch(`${url}/public/users/profile`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': SECRET_KEY, 'idempotency-key': key },
        body: JSON.stringify({ distinct_id: 'ada', operations: body }),
      }).then(({ status }) => status)
    const calls = async () => {
      const answer = await fetch(`${service.url}/public/users/ada`, { headers: { 'x-api-key': SECRET_KEY } })
      return ((await answer.json()) as { user: { properties: { calls: number } } }).user.properties.calls
    }

    t.test('a repeated $add counts once, however many repetitions arrive at the same time', async (t) => {
      const lost = front.loseReply('idempotency-key')
      await t.rejects(change(front.url, 'first'))
      await lost
      t.strictSame(
        await Promise.all(Array.from({ length: 8 }, () => change(front.url, 'first'))),
        Array.from({ length: 8 }, () => 200),
      )
      t.equal(await calls(), 1)
      t.equal(await change(front.url, 'first', { $add: { calls: 2 } }), 409)
      t.equal(await change(front.url, 'second'), 200)
      t.equal(await calls(), 2)
    })

    t.test('even with a SIGKILL in between', async (t) => {
      const lost = front.loseReply('idempotency-key')
      await t.rejects(change(front.url, 'third'))
      await lost
      service.process.kill('SIGKILL')
      await service.ended
      service = await startService(t, env)
      t.equal(await change(service.url, 'third'), 200)
      t.equal(await calls(), 3)
    })
  })
}

t.test('Redis', async (t) => {
  const { settings, redis } = await journalFor(t, 'redis')
  if (!redis) return t.fail('there is a Redis')
  const proxy = await TcpProxy.open(t, redis.url)
  const env = { ...settings, REDIS_URL: proxy.url, CLICKHOUSE_URL: databaseOf(engine.url) }
  const service = await startService(t, env)
  const ledger = new Ledger()
  const producer = new Producer(ledger, () => service.url)
  // From now on Redis knows the scripts, which are then called by their digests.
  await producer.send()
  await assertFlawless(t, ledger, service.url)

  for (const [name, script] of Object.entries({ WRITE, CLAIM, ACKNOWLEDGE })) {
    const called = script.single.digest
    t.test(`${name}: its reply is lost, or it never reaches Redis`, async (t) => {
      for (const fault of [proxy.loseReply(called), proxy.loseRequest(called), proxy.loseReply(called)]) {
        for (const count of [1, 100]) t.equal(await producer.send(count), 'answered')
        await fault
        t.equal(await producer.send(), 'answered')
      }
      await assertFlawless(t, ledger, service.url)
    })
  }

  t.test('WRITE: its reply never arrives', async (t) => {
    const fault = proxy.loseReply(WRITE.single.digest, 'silence')
    t.equal(await producer.send(100), 'answered', 'after the time limit of a command, it is requested again')
    await fault
    t.equal(await producer.send(), 'answered')
    await assertFlawless(t, ledger, service.url)
  })

  t.test('late and cut at random', async (t) => {
    const others = [1, 2, 3].map(() => new Producer(ledger, () => service.url))
    proxy.delayMs = 5
    let calls = 0
    const sending = others.map(async (other, i) => {
      for (let n = 0; n < 30; n++) {
        if (i === 0) await other.send(20)
        else await other.insist(n % 2 === 0 ? 1 : 20)
        calls++
      }
    })
    for (const count of [10, 40, 60]) {
      await until(`${count} calls`, () => calls >= count)
      proxy.cut()
      proxy.restore()
    }
    await Promise.all(sending)
    proxy.delayMs = 0
    await assertFlawless(t, ledger, service.url)
  })
})
