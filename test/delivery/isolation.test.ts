import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Writer } from '../../src/ingest/writer.js'
import { NO_IDS } from '../../src/model/request-ids.js'
import { openTables } from '../../src/store/tables.js'
import { randomName, silent, startClickHouse, until } from '../helper.js'
import { FLAWLESS, type Found, Ledger } from './ledger.js'
import { databaseOf, JOURNALS, type JournalKind, openJournal } from './servers.js'

const PROJECT = 'p'
const engine = await startClickHouse(t)

/** Forms of an entry with one numbered event. */
const SPELLINGS = {
  good: (event: string) => `{"events":[${event}]}`,
  /** ClickHouse takes no name twice */
  twice: (event: string) => `{"events":[${event.replace('{', '{"event":"x",')}]}`,
  /** impossible in a request, but possible after damage */
  unreadable: (event: string) => `{"events":[${event.replace('{', '{"timestamp":"never",')}]}`,
  noJson: (event: string) => event.slice(1),
}
type Spelling = keyof typeof SPELLINGS

/** Stores entries that begin as one block. @returns the number of INSERTs */
async function store(t: Test, kind: JournalKind, count: number, spelling: (i: number) => Spelling, padding = '') {
  const clickhouse = new ClickHouse({ url: databaseOf(engine.url) })
  t.teardown(() => clickhouse.close())
  await migrate(clickhouse)
  const journal = await openJournal(t, kind)
  const producer = randomName('producer')
  const ledger = new Ledger()
  const writes = Array.from({ length: count }, (_, number) => {
    const name = spelling(number)
    const properties = JSON.stringify({ number, padding })
    const event = `{"event":"numbered","distinct_id":"${producer}","properties":${properties}}`
    ledger.note(producer, number, 1, name === 'unreadable' || name === 'noJson' ? 'refused' : 'answered')
    return {
      type: 'append' as const,
      keyClass: 'secret' as const,
      projectId: PROJECT,
      count: 1,
      body: Buffer.from(SPELLINGS[name](event)),
      ids: NO_IDS,
    }
  })
  await journal.write(writes)

  const tables = openTables(clickhouse, journal)
  let inserts = 0
  const writer = new Writer({
    journal,
    tables: {
      ...tables,
      insert: (...args) => {
        inserts++
        return tables.insert(...args)
      },
    },
    log: silent,
    // A reader that waited for the pause even once would be noticed.
    pauseMs: 60_000,
  })
  t.teardown(() => writer.close())
  const startedAt = performance.now()
  writer.start()
  await until('an empty journal', async () => (await journal.depth()).entries === 0)
  t.comment(`${inserts} INSERTs, ${Math.round(performance.now() - startedAt)} ms`)

  const rows = await clickhouse.rows<Found & { padding: string }>(
    `SELECT distinct_id AS producer, toUInt32(JSONExtractUInt(properties, 'number')) AS number, toString(event_id) AS eventId
     FROM events ORDER BY toUInt128(event_id)`,
  )
  t.strictSame(await ledger.verdict(rows), FLAWLESS)
  const [letters] = await clickhouse.rows<{ count: string }>('SELECT count() AS count FROM dead_letters')
  t.equal(Number(letters?.count), count - ledger.answered)
  return inserts
}

for (const kind of JOURNALS) {
  // An INSERT takes 5 to 10 ms, so a hundred of them delay the others by a second at most.
  t.test(`with ${kind}, others are not held up`, async (t) => {
    t.test('by one entry that can be stored in another spelling', async (t) => {
      const inserts = await store(t, kind, 2000, (i) => (i === 1234 ? 'twice' : 'good'))
      t.ok(inserts <= 10)
    })

    t.test('by a hundred of them', async (t) => {
      const inserts = await store(t, kind, 2000, (i) => (i % 20 === 7 ? 'twice' : 'good'))
      t.ok(inserts <= 10)
    })

    t.test('by the same number in a large block', async (t) => {
      const inserts = await store(t, kind, 8000, (i) => (i % 80 === 7 ? 'twice' : 'good'), 'x'.repeat(1000))
      t.ok(inserts <= 30)
    })

    t.test('by an entry that cannot be stored at all', async (t) => {
      for (const at of [0, 1234, 1999]) {
        const inserts = await store(t, kind, 2000, (i) => (i === at ? 'unreadable' : 'good'))
        t.ok(inserts <= 40)
      }
    })

    t.test('by bodies that are not JSON', async (t) => {
      const inserts = await store(t, kind, 2000, (i) => (i % 500 === 499 ? 'noJson' : 'good'))
      t.ok(inserts <= 40)
    })
  })
}
