import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Writer } from '../../src/ingest/writer.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { openTables } from '../../src/store/tables.js'
import { silent, startClickHouse, until } from '../helper.js'
import { FLAWLESS, type Found, Ledger } from './ledger.js'
import { BLOCK, databaseOf, JOURNALS, openJournal } from './servers.js'
import { TcpProxy } from './tcp-proxy.js'

const engine = await startClickHouse(t)

for (const kind of JOURNALS) {
  t.test(`INSERTs from the ${kind} journal that are out of time`, async (t) => {
    const proxy = await TcpProxy.open(t, databaseOf(engine.url))
    // Shorter than the service's, which waits two minutes.
    const clickhouse = new ClickHouse({ url: proxy.url, insertTimeoutMs: 1_000 })
    t.teardown(() => clickhouse.close())
    await migrate(clickhouse)
    const journal = await openJournal(t, kind)
    const writer = new Writer({ journal, tables: openTables(clickhouse, journal), log: silent, pauseMs: 10 })
    t.teardown(() => writer.close())
    writer.start()

    const ledger = new Ledger()
    let next = 0
    const append = async () => {
      const body = Buffer.from(`{"events":[{"event":"e","distinct_id":"p","properties":{"number":${next}}}]}`)
      await journal.write([{ type: 'append', keyClass: 'secret', projectId: 'p', count: 1, body, ids: NO_IDS }])
      ledger.note('p', next++, 1, 'answered')
    }
    const assertStored = async () => {
      await until('an empty journal', async () => (await journal.depth()).entries === 0)
      const rows = await clickhouse.rows<Found>(
        `SELECT distinct_id AS producer, toUInt32(JSONExtractUInt(properties, 'number')) AS number, toString(event_id) AS eventId
         FROM events ORDER BY toUInt128(event_id)`,
      )
      t.strictSame(await ledger.verdict(rows), FLAWLESS)
    }

    t.test('the reply never arrives', async () => {
      const fault = proxy.loseReply(BLOCK, 'silence')
      await append()
      await fault
      await append()
      await assertStored()
    })

    t.test('the request arrives long after its repetition and later requests were carried out', async () => {
      const late = proxy.hold(BLOCK)
      await append()
      await late.held
      await append()
      await assertStored()
      await late.release()
      await assertStored()
    })
  })
}
