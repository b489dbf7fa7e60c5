import t from 'tap'
import { startClickHouse, startService, until } from '../helper.js'
import { Ledger } from './ledger.js'
import { assertFlawless, Producer } from './producer.js'
import { BLOCK, databaseOf, JOURNALS, journalFor } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

const CALLS = 200
const BATCH = 1000

const engine = await startClickHouse(t)

for (const journal of JOURNALS) {
  t.test(`${journal}: a start after a crash drains the backlog without help`, async (t) => {
    const { settings } = await journalFor(t, journal)
    const clickhouse = await TcpProxy.open(t, databaseOf(engine.url))
    const env = { ...settings, CLICKHOUSE_URL: clickhouse.url }
    let service = await startService(t, env)
    const ready = async () => {
      const answer = await fetch(`${service.url}/health/ready`)
      const { journal, store } = (await answer.json()) as { journal: string; store: string }
      return { status: answer.status, journal, store }
    }
    t.match(await ready(), { status: 200, journal: 'ready', store: 'ready' })

    clickhouse.cut()
    const ledger = new Ledger()
    const producer = new Producer(ledger, () => service.url)
    for (let i = 0; i < CALLS; i++) await producer.send(BATCH)
    t.match(await ready(), { status: 503, journal: 'ready', store: 'unavailable' })
    service.process.kill('SIGKILL')
    await service.ended

    service = await startService(t, env)
    t.match(await ready(), { status: 503, journal: 'ready', store: 'unavailable' }, 'it serves without its store')
    t.equal(await producer.send(), 'answered')
    t.equal(ledger.answered, CALLS * BATCH + 1)

    const blocks = clickhouse.watch(BLOCK)
    clickhouse.restore()
    await until('the store', async () => (await ready()).status === 200)
    t.equal(await producer.send(), 'answered')
    await assertFlawless(t, ledger, service.url)
    // 20 MB are less than one block; others have what arrived in the meantime, or are repeated on a busy machine.
    t.ok(blocks.seen <= CALLS / 10, `in ${blocks.seen} blocks, so that each of them costs its INSERT's overhead once`)
  })
}
