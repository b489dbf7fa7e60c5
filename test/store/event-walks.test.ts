import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import type { Order } from '../../src/model/cursor.js'
import { formatEventId, lastIdAt } from '../../src/model/event-id.js'
import { EventWalks, type PageRequest } from '../../src/store/event-walks.js'
import { wrapRows } from '../../src/store/page.js'
import { PageReach } from '../../src/store/page-reach.js'
import { startClickHouse } from '../helper.js'

const START_MS = Date.UTC(2026, 0, 1)
const DAY_MS = 24 * 3_600_000
const SIGNAL = new AbortController().signal

const { url } = await startClickHouse(t)
const clickhouse = new ClickHouse({ url })
t.teardown(() => clickhouse.close())
await migrate(clickhouse)
// Each block stays a part.
await clickhouse.command('SYSTEM STOP MERGES events')
t.beforeEach(() => clickhouse.command('TRUNCATE TABLE events'))

/** Stores a block of events of some projects in turn, this many ms apart. */
async function store(projects: string[], firstMs: number, stepMs: number): Promise<string[]> {
  const ids = projects.map((_, i) =>
    formatEventId({ position: BigInt(firstMs + i * stepMs) << 16n, index: 0, journalId: 1 }),
  )
  const rows = projects.map((project, i) => `('${project}', '${ids[i]}', 'e', 'u', 0, 0, '{}')`)
  await clickhouse.command(
    `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties) VALUES ${rows}`,
  )
  return ids
}

/** All pages of a walk by cursor, as ids. */
async function walk(
  walks: EventWalks,
  { projectId, order, limit, endMs }: { projectId: string; order: Order; limit: number; endMs: number },
): Promise<string[][]> {
  const pages: string[][] = []
  const upTo = lastIdAt(BigInt(endMs) << 16n)
  for (let startAt: string | null = null; ; ) {
    const wanted: PageRequest = { projectId, filter: {}, order, limit, startAt, page: undefined, upTo, deletions: '' }
    const { ids, next } = await readPage(walks, wanted)
    pages.push(ids)
    startAt = next
    if (startAt === null) return pages
  }
}

async function readPage(walks: EventWalks, wanted: PageRequest): Promise<{ ids: string[]; next: string | null }> {
  const { rows } = await walks.read('json', wanted, SIGNAL)
  let next: string | null = null
  const body = await buffer(
    wrapRows(rows, '[', (id) => {
      next = id
      return ']'
    }),
  )
  walks.remember(wanted, next)
  return { ids: JSON.parse(body.toString()).map(({ eventId }: { eventId: string }) => eventId), next }
}

function chunks(ids: string[], size: number): string[][] {
  return Array.from({ length: Math.ceil(ids.length / size) }, (_, i) => ids.slice(i * size, (i + 1) * size))
}

async function partsRead(): Promise<number> {
  const [row] = await clickhouse.rows<{ value: string }>(
    "SELECT value FROM system.events WHERE event = 'SelectedParts'",
  )
  return Number(row?.value ?? 0)
}

// First, because ClickHouse counts events without opening parts only in a table of which nothing was ever deleted.
t.test('EventWalks opens only the parts that have events of the page', async (t) => {
  const blocks = 32
  for (let i = 0; i < blocks; i++) {
    await store(Array<string>(10).fill('p'), START_MS + i * DAY_MS, 1000)
  }
  const shards = Shards.of(clickhouse)
  const pages = async (reach: PageReach, order: Order) => {
    const walks = new EventWalks(shards, undefined, reach)
    const asked = { projectId: 'p', order, limit: 20, endMs: START_MS + blocks * DAY_MS }
    // The first walk finds out how far apart the events of the project are.
    await walk(walks, asked)
    const before = await partsRead()
    const read = await walk(walks, asked)
    t.equal(read.flat().length, blocks * 10)
    return ((await partsRead()) - before) / read.length
  }
  for (const order of ['asc', 'desc'] as const) {
    const unbounded = await pages(new PageReach(shards, 1000), order)
    const bounded = await pages(new PageReach(shards), order)
    t.ok(unbounded > blocks / 2, `${order}: ${unbounded} parts for a page`)
    t.ok(bounded < unbounded / 2, `${order}: ${bounded} parts for a page that has a bound`)
  }

  const walks = new EventWalks(shards, undefined, new PageReach(shards))
  const firstPage = async () => {
    const before = await partsRead()
    const wanted = { filter: {}, startAt: null, page: undefined, deletions: '', projectId: 'p', order: 'asc' } as const
    const page = { ...wanted, limit: 5, upTo: lastIdAt(BigInt(START_MS + blocks * DAY_MS) << 16n) }
    t.equal((await readPage(walks, page)).ids.length, 5)
    return (await partsRead()) - before
  }
  t.ok((await firstPage()) >= blocks, 'it is not known when the first event was')
  const known = await firstPage()
  t.ok(known < blocks / 2, `${known} parts for the first page, again`)
})

t.test('EventWalks returns every event once over many parts, however the events are spread', async (t) => {
  const block = fc.record({
    gapMs: fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 1, max: 40 * DAY_MS })),
    stepMs: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: DAY_MS })),
    projects: fc.array(fc.constantFrom('p', 'p', 'p', 'q'), { minLength: 1, maxLength: 12 }),
  })
  const shards = Shards.of(clickhouse)
  const property = fc.asyncProperty(
    fc.array(block, { minLength: 1, maxLength: 8 }),
    fc.integer({ min: 2, max: 9 }),
    fc.array(fc.nat(), { maxLength: 6 }),
    async (blocks, limit, deleted) => {
      await clickhouse.command('TRUNCATE TABLE events')
      const stored: { project: string; id: string }[] = []
      let atMs = START_MS
      for (const { gapMs, stepMs, projects } of blocks) {
        const ids = await store(projects, atMs + gapMs, stepMs)
        stored.push(...ids.map((id, i) => ({ project: projects[i] ?? '', id })))
        atMs += gapMs + projects.length * stepMs
      }
      const gone = new Set(deleted.map((n) => stored[n % stored.length]?.id ?? ''))
      if (gone.size > 0) {
        await clickhouse.command(`DELETE FROM events WHERE event_id IN (${[...gone].map((id) => `'${id}'`)})`)
      }
      const walks = new EventWalks(shards, undefined, new PageReach(shards, 0))
      for (const project of ['p', 'q']) {
        const ids = stored.filter(({ project: its, id }) => its === project && !gone.has(id)).map(({ id }) => id)
        for (const order of ['asc', 'desc'] as const) {
          const wanted = chunks(order === 'asc' ? ids : ids.toReversed(), limit)
          const pages = await walk(walks, { projectId: project, order, limit, endMs: atMs })
          t.strictSame(pages, wanted.length === 0 ? [[]] : wanted, order)
        }
      }
    },
  )
  await fc.assert(property, { numRuns: 3 })
})

t.test('EventWalks bounds the pages of a project once it has more than one page', async (t) => {
  for (let i = 0; i < 4; i++) await store(Array<string>(10).fill('p'), START_MS + i * 60_000, 1)
  const reach = new PageReach(Shards.of(clickhouse), 0)
  const upTo = lastIdAt(BigInt(START_MS + DAY_MS) << 16n)
  const page = { projectId: 'p', order: 'asc', upTo, limit: 10, offset: 0 } as const
  const find = () => reach.find(page, { signal: SIGNAL })
  reach.note(page, null)
  t.equal(await find(), null)
  reach.note(page, upTo)
  t.not(await find(), null)
})

t.test('EventWalks bounds the pages of a project whose first events were deleted', async (t) => {
  const old = await store(Array<string>(10).fill('p'), START_MS, 1)
  await store(Array<string>(10).fill('p'), START_MS + 60 * DAY_MS, 1)
  const reach = new PageReach(Shards.of(clickhouse), 0)
  const upTo = lastIdAt(BigInt(START_MS + 200 * DAY_MS) << 16n)
  const find = () => reach.find({ projectId: 'p', order: 'asc', upTo, limit: 5, offset: 0 }, { signal: SIGNAL })
  t.not(await find(), null)
  await clickhouse.command(`DELETE FROM events WHERE event_id IN (${old.map((id) => `'${id}'`)})`)
  t.equal(await find(), null, 'no event is near the earlier first one')
  t.not(await find(), null)
})
