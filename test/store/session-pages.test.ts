import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { readSessionPage, type SessionFilter } from '../../src/store/session-pages.js'
import { emptyClickHouse } from '../shared-engine.js'

/** Up to several times the number that a short page reads at first. */
const ROWS = { minLength: 1, maxLength: 400 }
/** Number of blocks, which are not merged. */
const PARTS = 3

interface Row {
  id: string
  user: string
  state: 'active' | 'completed'
  startedAt: number
  isDeleted: boolean
}

const { url, clickhouse } = await emptyClickHouse()
await clickhouse.command('SYSTEM STOP MERGES sessions')

/** Stores rows; the version of each is its index. */
async function store(rows: Row[]): Promise<void> {
  await clickhouse.command('TRUNCATE TABLE sessions')
  const size = Math.ceil(rows.length / PARTS)
  for (let from = 0; from < rows.length; from += size) {
    const values = rows.slice(from, from + size).map(({ id, user, state, startedAt, isDeleted }, i) => {
      const written = isDeleted ? "'', '', '', 0" : `'${user}', '${state}', '{}', ${startedAt}`
      return `('p', '${id}', ${written}, ${from + i + 1}, ${isDeleted ? 1 : 0})`
    })
    await clickhouse.command(
      `INSERT INTO sessions (project_id, session_id, distinct_id, state, properties, started_at, version, is_deleted)
       VALUES ${values}`,
    )
  }
}

function expected(
  rows: Row[],
  { distinctId, state, from = 0, to = Number.POSITIVE_INFINITY }: SessionFilter,
): string[] {
  const newest = new Map(rows.map((row) => [row.id, row]))
  return [...newest.values()]
    .filter((row) => !row.isDeleted && row.user === (distinctId ?? row.user) && row.state === (state ?? row.state))
    .filter(({ startedAt }) => startedAt >= from && startedAt < to)
    .sort((a, b) => b.startedAt - a.startedAt || (a.id < b.id ? 1 : -1))
    .map(({ id }) => id)
}

async function rowsRead(): Promise<number> {
  const [row] = await clickhouse.rows<{ value: string }>("SELECT value FROM system.events WHERE event = 'SelectedRows'")
  return Number(row?.value ?? 0)
}

t.test('readSessionPage returns the sessions that started last, each by its newest row', async (t) => {
  const row = fc.record({
    id: fc.integer({ min: 10, max: 99 }).map((n) => `s${n}`),
    user: fc.constantFrom('ada', 'ada', 'ada', 'bob'),
    state: fc.constantFrom('active' as const, 'completed' as const),
    startedAt: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 40, max: 45 })),
    isDeleted: fc.nat(9).map((n) => n === 0),
  })
  const filter = fc.record(
    {
      distinctId: fc.constantFrom('ada', 'bob', 'nobody'),
      state: fc.constantFrom('active' as const, 'completed' as const),
      from: fc.nat(60),
      to: fc.nat(60),
    },
    { requiredKeys: [] },
  )
  const page = fc.record({ limit: fc.integer({ min: 1, max: 9 }), offset: fc.oneof(fc.nat(10), fc.nat(100)), filter })
  const property = fc.asyncProperty(
    fc.array(row, ROWS),
    fc.array(page, { minLength: 1, maxLength: 6 }),
    async (rows, pages) => {
      await store(rows)
      for (const { limit, offset, filter } of pages) {
        const all = expected(rows, filter)
        const read = await readSessionPage(Shards.of(clickhouse), { projectId: 'p', limit, offset, ...filter })
        const found = JSON.parse(`[${await text(read.rows)}]`).map(
          ({ session_id }: { session_id: string }) => session_id,
        )
        t.strictSame(found, all.slice(offset, offset + limit))
        t.equal(read.hasMore, all.length > offset + limit)
      }
    },
  )
  await fc.assert(property, { numRuns: 6 })
})

t.test('readSessionPage reads the newest versions of few sessions for a first page', async (t) => {
  await clickhouse.command(
    `INSERT INTO sessions (project_id, session_id, distinct_id, state, properties, started_at, version, is_deleted)
     SELECT 'large', concat('s', leftPad(toString(number), 7, '0')), 'ada', 'active', '{}', number, number + 1, 0
     FROM numbers(300000)`,
  )
  const before = await rowsRead()
  const { rows, hasMore } = await readSessionPage(Shards.of(clickhouse), { projectId: 'large', limit: 50, offset: 0 })
  t.equal(JSON.parse(`[${await text(rows)}]`)[0].session_id, 's0299999')
  t.ok(hasMore)
  // Only when each of them started, and little more.
  const read = (await rowsRead()) - before
  t.ok(read >= 300_000 && read < 400_000, `${read} rows were read`)
})

t.test('readSessionPage keeps its statement small even if the ids are as long as possible', async (t) => {
  const lengths: number[] = []
  class Watched extends ClickHouse {
    override async rows<Row>(...call: Parameters<ClickHouse['rows']>): Promise<Row[]> {
      lengths.push(call[0].length)
      return await super.rows(...call)
    }
  }
  const watched = new Watched({ url: url })
  t.teardown(() => watched.close())
  // A control character is six in JSON. The session that started last has more versions than are looked at first.
  await clickhouse.command(
    `WITH greatest(0, toInt64(number) - 700) AS n
     INSERT INTO sessions (project_id, session_id, distinct_id, state, properties, started_at, version, is_deleted)
     SELECT 'long', concat(repeat(char(1), 250), leftPad(toString(n), 5, '0')),
       'ada', 'active', '{}', 100000 - n, number + 1, 0
     FROM numbers(6000)`,
    {},
    { optimize_on_insert: 0 },
  )
  for (const limit of [300, 3000]) {
    const { rows, hasMore } = await readSessionPage(Shards.of(watched), { projectId: 'long', limit, offset: 7 })
    const ids = JSON.parse(`[${await text(rows)}]`).map(({ session_id }: { session_id: string }) =>
      Number(session_id.slice(250)),
    )
    t.strictSame(
      ids,
      Array.from({ length: limit }, (_, i) => i + 7),
    )
    t.ok(hasMore)
  }
  t.ok(Math.max(...lengths) < 5_000_000, `statements of ${lengths} characters`)
})
