import t from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { formatEventId } from '../../src/model/event-id.js'
import { Catalog } from '../../src/questions/catalog.js'
import { readQuestion } from '../../src/questions/parse.js'
import { Questions } from '../../src/questions/run.js'
import { until } from '../helper.js'
import { emptyClickHouse } from '../shared-engine.js'

const SECOND = 1000
const DAY = 86_400 * SECOND
const START = Date.parse('2026-04-20T00:00:00Z')

const { clickhouse } = await emptyClickHouse()

const positionAt = (ms: number) => BigInt(START + ms) << 16n
let projects = 0

/** A project whose events are inserted directly into the table, and its catalog. */
function project({ reviewMs }: { reviewMs?: number } = {}) {
  const projectId = `project ${projects++}`
  const point = { stored: positionAt(0), pending: 0, deletions: '' }
  const clock = { ms: 0 }
  const shards = Shards.of(clickhouse)
  const refused = new Set<string>()
  const barrier = {
    waitForProject: async (id: string) => {
      if (refused.has(id)) throw new Error('refused')
      return { ...point }
    },
  }
  const limits = { QUERY_TIMEOUT: 30, QUERY_MEMORY: 2 ** 31 }
  const questions = new Questions({ shards, barrier, limits, reviewMs, aliases: { hasAny: async () => false } })
  const attempts: unknown[] = []
  const log = { info: (details: { failures?: number }) => details.failures && attempts.push(details) }
  const catalog = new Catalog({ shards, barrier, questions, log, clock: () => clock.ms })
  /** @param event SQL for the name, of `number` @param ms of their position, after START */
  const insert = async (count: number, event: string, ms: number, properties = `'{}'`) => {
    const id = formatEventId({ position: positionAt(ms), index: 0, journalId: 1 })
    await clickhouse.command(
      `INSERT INTO events (project_id, event_id, event, distinct_id, timestamp, received_at, properties)
       SELECT '${projectId}', toUUID(concat('${id.slice(0, 24)}', leftPad(hex(toUInt32(number)), 12, '0'))),
         ${event}, 'ada', ${START + ms}, ${START + ms}, ${properties} FROM numbers(${count})`,
    )
    if (positionAt(ms) > point.stored) point.stored = positionAt(ms)
  }
  const counts = async () => (await catalog.events(projectId)).events.map(({ event, count }) => [event, count])
  const refuse = (id: string) => refused.add(id)
  return { projectId, catalog, questions, point, clock, insert, counts, refuse, attempts }
}

t.test('only new events are counted, and all of them again after a while', async (t) => {
  const { clock, point, insert, counts } = project()
  await insert(2, `'a'`, -60 * DAY)
  await insert(1, `'a'`, 10)
  t.strictSame(await counts(), [['a', 3]])
  await insert(1, `'late'`, 5)
  await insert(2, `'b'`, 20)
  t.strictSame(await counts(), [
    ['a', 3],
    ['b', 2],
  ])
  clock.ms += 10 * 60 * SECOND
  t.strictSame(await counts(), [
    ['a', 3],
    ['b', 2],
    ['late', 1],
  ])
  await insert(1, `'later'`, 6)
  t.equal((await counts()).length, 3)
  point.deletions += '+'
  t.equal((await counts()).length, 4)
})

t.test(
  'Catalog counts changed months again after a deletion: those with deleted, late or no events, and the last',
  async (t) => {
    const { projectId, clock, point, insert, counts } = project()
    await insert(3, `'a'`, -90 * DAY)
    await insert(4, `'a'`, -60 * DAY)
    await insert(5, `'b'`, -30 * DAY)
    await insert(1, `'c'`, 10)
    const all = async () => Object.fromEntries(await counts())
    t.strictSame(await all(), { a: 7, b: 5, c: 1 })
    const remove = async (condition: string) => {
      await clickhouse.command(`DELETE FROM events WHERE project_id = '${projectId}' AND ${condition}`)
      point.deletions += '+'
    }
    await remove(`event = 'a' AND timestamp < ${START - 80 * DAY} AND toUInt128(event_id) % 2 = 0`)
    t.strictSame(await all(), { a: 5, b: 5, c: 1 })
    await insert(2, `'late'`, -59 * DAY)
    t.strictSame(await all(), { a: 5, b: 5, c: 1 })
    await remove(`event = 'c'`)
    t.strictSame(await all(), { a: 5, b: 5, late: 2 })
    await remove(`event = 'b'`)
    await insert(2, `'d'`, 20)
    t.strictSame(await all(), { a: 5, late: 2, d: 2 })
    // The last month is over; this event of it is new.
    await insert(1, `'e'`, 15)
    await insert(1, `'f'`, 40 * DAY)
    t.strictSame(await all(), { a: 5, late: 2, d: 2, f: 1 })
    clock.ms += 10 * 60 * SECOND
    t.strictSame(await all(), { a: 5, late: 2, d: 2, e: 1, f: 1 })
    await remove(`1`)
    t.strictSame(await all(), {})
  },
)

t.test('if there are too many names, the most frequent are listed', async (t) => {
  const { clock, insert, counts } = project()
  await insert(12_000, `toString(number)`, 10)
  await insert(2, `'twice'`, 20)
  t.equal((await counts()).length, 10_000)
  t.strictSame((await counts())[0], ['twice', 2])
  await insert(3, `'new'`, 30)
  t.strictSame((await counts())[0], ['twice', 2])
  clock.ms += 15 * SECOND
  t.strictSame((await counts())[0], ['new', 3])
})

t.test('of a large project, a few events are sampled first, and more in the background', async (t) => {
  const { projectId, catalog, clock, point, insert } = project()
  await insert(
    2_000_000,
    `if(number % 10_000 = 0, 'rare', 'often')`,
    10,
    `if(number < 1_900_000, '{"old":1}', '{"n":1}')`,
  )
  const names = async (event?: string) => {
    const { properties, sampled } = await catalog.properties({ projectId, event })
    return [sampled, ...properties.map(({ property, share }) => `${property} ${share}`)]
  }
  t.strictSame(await names(), [1000, 'n 1'])
  t.strictSame(await names('often'), [1000, 'n 1'])
  t.strictSame(await names('rare'), [10, 'n 1'])
  t.strictSame(await catalog.values(projectId, { field: 'event', limit: 10 }), {
    values: [{ value: 'often', count: 1000 }],
    sampled: 1000,
    pending: 0,
  })
  await catalog.settled()
  t.strictSame(await names(), [20_000, 'n 1'])
  t.strictSame(await names('often'), [20_000, 'n 1'])
  t.strictSame(await names('rare'), [200, 'old 0.95', 'n 0.05'])
  t.equal((await catalog.values(projectId, { field: 'event', limit: 10 })).sampled, 20_000)
  await insert(5, `'more'`, 20, `'{"x":1}'`)
  t.strictSame(await names('more'), [5, 'x 1'])
  t.strictSame(await names(), [20_000, 'n 1'])
  clock.ms += 15 * SECOND
  t.strictSame(await names(), [20_000, 'n 1'], 'as it was')
  await catalog.settled()
  t.strictSame(await names(), [20_000, 'n 0.99975', 'x 0.00025'])
  clock.ms += 20 * 60 * SECOND
  await insert(15_000, `'often'`, 30, `'{"y":1}'`)
  t.strictSame(await names(), [1000, 'y 1'], 'not as it was long before')
  await catalog.settled()
  t.strictSame(await names(), [20_000, 'y 0.75', 'n 0.24975', 'x 0.00025'])
  await clickhouse.command(`DELETE FROM events WHERE project_id = '${projectId}' AND event = 'more'`)
  point.deletions += '+'
  t.strictSame(await names(), [1000, 'y 1'], 'no deleted data')
  t.strictSame(await names('more'), [0])
  await catalog.settled()
  t.strictSame(await names(), [20_000, 'y 0.75', 'n 0.25'])
  t.strictSame(await names('more'), [0])
})

t.test('after a deletion a list has the events that are left, wherever they are', async (t) => {
  const { projectId, catalog, point, insert } = project()
  const sampled = async (event: string) => {
    const { properties, sampled } = await catalog.properties({ projectId, event })
    return [sampled, ...properties.map(({ property }) => property)]
  }
  await insert(30, `'a'`, -90 * DAY, `'{"old":1}'`)
  await insert(200_000, `if(number % 4000 = 0, 'a', 'b')`, 10, `'{"new":1}'`)
  t.strictSame(await sampled('a'), [10, 'new'])
  await clickhouse.command(
    `DELETE FROM events WHERE project_id = '${projectId}' AND event = 'a' AND timestamp >= ${START}`,
  )
  point.deletions += '+'
  t.strictSame(await sampled('a'), [10, 'old'])
  await insert(4, `'a'`, 20, `'{"newest":1}'`)
  await clickhouse.command(`DELETE FROM events WHERE project_id = '${projectId}' AND event = 'b'`)
  point.deletions += '+'
  t.strictSame(await sampled('b'), [0])
  t.strictSame(await sampled('a'), [34, 'old', 'newest'], 'all, as few are left')
  await catalog.settled()
})

t.test('a list of a large project that is renewed during a deletion does not contain deleted data', async (t) => {
  const { projectId, catalog, point, insert } = project()
  const properties = async () => {
    const { properties, sampled } = await catalog.properties({ projectId, event: undefined })
    return [sampled, ...properties.map(({ property }) => property)]
  }
  await insert(200_000, `if(number < 190_000, 'a', 'b')`, 10, `if(number < 190_000, '{"a":1}', '{"b":1}')`)
  t.strictSame(await properties(), [1000, 'b'])
  const settled = catalog.settled()
  await clickhouse.command(`DELETE FROM events WHERE project_id = '${projectId}' AND event = 'b'`)
  point.deletions += '+'
  t.strictSame(await properties(), [1000, 'a'])
  await settled
  t.strictSame((await properties()).slice(1), ['a'])
  await catalog.settled()
  t.strictSame(await properties(), [20_000, 'a'])
})

t.test('a large project is counted again in the background, but immediately after a deletion', async (t) => {
  const { projectId, catalog, clock, point, insert, counts } = project()
  await insert(200_000, `if(number < 3, 'rare', 'often')`, 10)
  const known = [
    ['often', 199_997],
    ['rare', 3],
  ]
  t.strictSame(await counts(), known)
  const remove = async (event: string) => {
    await clickhouse.command(`DELETE FROM events WHERE project_id = '${projectId}' AND event = '${event}'`)
    point.deletions += '+'
  }
  await remove('rare')
  await insert(2, `'new'`, 20)
  t.strictSame(await counts(), [known[0], ['new', 2]], 'no deleted data')
  await insert(1, `'newer'`, 30)
  const now = [
    ['often', 199_997],
    ['new', 2],
    ['newer', 1],
  ]
  t.strictSame(await counts(), now)
  await insert(1, `'older'`, 5)
  clock.ms += 60 * 60 * SECOND
  t.strictSame(await counts(), now)
  await catalog.settled()
  t.strictSame(await counts(), [...now, ['older', 1]])
  await remove('new')
  clock.ms += 20 * 60 * SECOND
  t.strictSame(await counts(), [now[0], ['newer', 1], ['older', 1]])
  await catalog.settled()
})

t.test('large projects are counted before the first call, even if other counts fail', async (t) => {
  const ones = [project(), project(), project()] as const
  for (const { insert } of ones) await insert(150_000, `'a'`, 10, `'{"n":1}'`)
  const [{ catalog, refuse }, second] = ones
  refuse(second.projectId)
  await catalog.prepare(new AbortController().signal)
  await catalog.settled()
  await clickhouse.command('RENAME TABLE events TO events_away')
  t.teardown(() => clickhouse.command('RENAME TABLE events_away TO events'))
  for (const { projectId } of [ones[0], ones[2]]) {
    t.strictSame((await catalog.events(projectId)).events, [
      { event: 'a', count: 150_000, first_seen: START + 10, last_seen: START + 10 },
    ])
    t.equal((await catalog.properties({ projectId, event: undefined })).sampled, 20_000)
  }
  await t.rejects(catalog.events(second.projectId))
})

t.test('preparing waits for ClickHouse, until the service ends', async (t) => {
  const { catalog, insert, counts, attempts } = project()
  await insert(150_000, `'a'`, 10)
  await clickhouse.command('RENAME TABLE events TO events_away')
  const prepared = catalog.prepare(new AbortController().signal)
  await until('the first attempt', () => attempts.length > 0)
  await clickhouse.command('RENAME TABLE events_away TO events')
  await prepared
  await clickhouse.command('RENAME TABLE events TO events_away')
  t.teardown(() => clickhouse.command('RENAME TABLE events_away TO events'))
  t.strictSame(await counts(), [['a', 150_000]])
  const closing = new AbortController()
  const other = project()
  const ended = other.catalog.prepare(closing.signal)
  await until('the first attempt', () => other.attempts.length > 0)
  closing.abort()
  await ended
})

t.test('a name that a replayed dead letter may have brought is not reported as unknown', async (t) => {
  const { projectId, catalog, point, insert } = project()
  const named = (name: string) => {
    const question = readQuestion({ kind: 'series', series: [{ event: name }] }, START).question
    return catalog.review(projectId, { question, body: {}, point })
  }
  await insert(1, `'a'`, 10)
  t.match(await named('late'), [{ path: '/series/0/event', message: 'No event is called “late”.' }])
  // Events of a dead letter have old ids, which only the next full count includes.
  await insert(1, `'late'`, 5)
  t.equal((await named('late')).length, 1)
  const now = Date.now()
  await clickhouse.command(`INSERT INTO dead_letter_replays SELECT 1, 1, ${now}`)
  t.strictSame(await named('late'), [])
  t.strictSame(await named('later'), [], 'nor any other')
})

t.test('in a large project, a few of the newest events are read in addition to an earlier sample', async (t) => {
  const { projectId, catalog, point, insert } = project()
  const warnings = async (event: string, property: string) => {
    const body = { kind: 'series', series: [{ event, metric: 'sum', property: `properties.${property}` }] }
    const found = await catalog.review(projectId, { question: readQuestion(body, START).question, body, point })
    return found.map(({ message }) => message)
  }
  await insert(10, `'rare'`, 10, `'{"price":1}'`)
  await insert(101_000, `'often'`, 20, `'{"plan":1}'`)
  t.strictSame(await warnings('rare', 'price'), [])
  t.strictSame(await warnings('rare', 'prize'), [
    'No event called “rare” has the property “prize”. Did you mean “price”?',
  ])
  t.strictSame(await warnings('*', 'prize'), ['None of the newest 1000 events has the property “prize”.'])
  t.strictSame(await warnings('*', 'price'), [], 'an older event has it')
  await insert(3, `'often'`, 30, `'{"new":1}'`)
  t.strictSame(await warnings('*', 'new'), [])
  await insert(3000, `'often'`, 40, `'{"plan":1}'`)
  t.strictSame(await warnings('*', 'new'), [], 'it is known from before')
})

t.test('a review that takes too long does not go on with further questions', async (t) => {
  const { questions } = project({ reviewMs: 1 })
  const body = { kind: 'series', series: [{ event: 'a' }] }
  const begun: string[] = []
  let finish = () => {}
  const finished = new Promise<[]>((resolve) => {
    finish = () => resolve([])
  })
  const bodies = new Map(['/cards/0', '/cards/1'].map((path) => [path, body]))
  const found = await questions.review('default', bodies, async (projectId) => {
    begun.push(projectId)
    return await finished
  })
  t.strictSame(found, [])
  finish()
  await new Promise(setImmediate)
  t.equal(begun.length, 1)
})
