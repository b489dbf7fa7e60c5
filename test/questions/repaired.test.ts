import t, { type Test } from 'tap'
import type { ClickHouse } from '../../src/clickhouse/client.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { Questions } from '../../src/questions/run.js'
import { UnusualProjects } from '../../src/questions/unusual-projects.js'
import { openShard, type StoredEvent } from '../facts/shard.js'

const START = Date.parse('2026-04-20T00:00:00Z')
const HOUR_MS = 3_600_000
const { signal } = new AbortController()

const clock = { now: START }
/** whether each statement repairs texts */
const asked: boolean[] = []
/** whether each statement reads ids */
const ordered: boolean[] = []

/** Questions about these events. */
async function questionsAbout(t: Test, events: StoredEvent[]): Promise<Questions> {
  const { clickhouse, store } = await openShard(t)
  await store('default', events)
  const rows: ClickHouse['rows'] = async (query, ...rest) => {
    if (query.includes('AS mask')) asked.push(query.includes('AS repaired'))
    if (query.includes('AS mask')) ordered.push(query.includes('AS id'))
    return await clickhouse.rows(query, ...rest)
  }
  return new Questions({
    shards: Shards.of(Object.assign(Object.create(clickhouse), { rows })),
    barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
    aliases: { hasAny: async () => false },
    limits: { QUERY_TIMEOUT: 30, QUERY_MEMORY: 1 << 30 },
    now: () => clock.now,
  })
}

t.test('texts are repaired for an hour, only in projects where a question needed it', async (t) => {
  const given = [
    ['fine', '{"v":"x","n":1}'],
    ['fine', '{}'],
    ['odd', '{"v":"\\ud83dx","n":1}'],
    ['odd', '{"v":["x\\ud83d"],"w":1e400}'],
    ['odd', '{"x":null}'],
    ['within', '{"a":[5,"-0"]}'],
    ['within', '{"a":[9007199254740993]}'],
    ['plain', '{"a":[5.0]}'],
    ['plain', '{"a":9007199254740993}'],
  ] as const
  const questions = await questionsAbout(
    t,
    given.map(([event, properties], i) => ({ event, distinct_id: `u${i}`, timestamp: START + i, properties })),
  )
  const count = async (event: string, where: unknown) => {
    asked.length = 0
    const question = {
      kind: 'series',
      series: [{ event, where }],
      from: '2026-04-20',
      to: '2026-04-21',
      interval: 'none',
    }
    const [line] = (await questions.ask('default', question, signal)).results as [{ total: number }]
    return [line.total, ...asked]
  }
  t.strictSame(await count('fine', ['contains', 'properties.v', 'x']), [1, false])
  t.strictSame(await count('fine', ['not_set', 'properties.v']), [1, false])
  t.strictSame(await count('odd', ['is', 'distinct_id', ['u2']]), [1, false], 'no property is asked for')
  t.strictSame(await count('odd', ['contains', 'properties.v', 'x']), [2, false, true])
  t.strictSame(await count('odd', ['not_set', 'properties.v']), [1, true])
  t.strictSame(await count('fine', ['contains', 'properties.v', 'x']), [1, true])
  clock.now += HOUR_MS
  t.strictSame(await count('fine', ['is', 'properties.n', [1]]), [1, false])
  // Neither of two properties is found; no member has a name that is asked for.
  t.strictSame(
    await count('odd', [
      'and',
      [
        ['not_set', 'properties.v'],
        ['not_set', 'properties.w'],
      ],
    ]),
    [1, false, true],
  )
  clock.now += HOUR_MS
  t.strictSame(await count('odd', ['gt', 'properties.w', 5]), [1, false, true])

  const values = async (event: string) => {
    asked.length = 0
    const question = {
      kind: 'series',
      series: [{ event }],
      from: '2026-04-20',
      to: '2026-04-21',
      breakdown: ['properties.a'],
    }
    const lines = (await questions.ask('default', question, signal)).results as { breakdown: unknown }[]
    return [lines.map(({ breakdown }) => breakdown), ...asked]
  }
  clock.now += HOUR_MS
  t.strictSame(await values('plain'), [[[9007199254740992], [[5]]], false])
  t.strictSame(await values('within'), [[[[5, '-0']], [[9007199254740992]]], false, true])
})

t.test('ids are read only for projects in which the order of simultaneous events matters, for an hour', async (t) => {
  const journey = (distinct_id: string, ...events: [event: string, at: number][]) =>
    events.map(([event, at]) => ({ event, distinct_id, timestamp: START + at, properties: '{}' }))
  const questions = await questionsAbout(t, [
    ...journey('apart', ['first', 0], ['next', 1], ['next', 1]),
    ...journey('at once', ['here', 5], ['there', 5]),
    ...journey('reversed', ['there', 5], ['here', 5]),
    ...journey('twice', ['again', 7], ['again', 7]),
  ])
  const range = { from: '2026-04-20', to: '2026-04-21' }
  const countFunnel = async (...steps: string[]) => {
    ordered.length = 0
    const question = { kind: 'funnel', steps: steps.map((event) => ({ event })), ...range }
    const [line] = (await questions.ask('default', question, signal)).results as [{ steps: { users: number }[] }]
    return [line.steps.map(({ users }) => users), ...ordered]
  }
  const countReturns = async (start: string, back: string) => {
    ordered.length = 0
    const question = { kind: 'retention', start: { event: start }, return: { event: back }, intervals: 1, ...range }
    const [cohort] = (await questions.ask('default', question, signal)).results as [{ cells: { users: number }[] }]
    return [cohort.cells.map(({ users }) => users), ...ordered]
  }
  t.strictSame(await countFunnel('first', 'next'), [[1, 1], false])
  t.strictSame(await countReturns('first', 'next'), [[1], false])
  t.strictSame(await countFunnel('here', 'there'), [[2, 1], false, true])
  t.strictSame(await countFunnel('first', 'next'), [[1, 1], true])
  clock.now += HOUR_MS
  t.strictSame(await countReturns('first', 'first'), [[0], false], 'the start itself')
  t.strictSame(await countReturns('again', 'again'), [[1], false, true])
  clock.now += HOUR_MS
  t.strictSame(await countReturns('here', 'there'), [[1], false, true])
})

t.test('UnusualProjects remembers the projects that were found last', async (t) => {
  const projects = new UnusualProjects()
  for (let i = 0; i <= 5_000; i++) projects.add(`p${i}`, i)
  t.strictSame(
    ['p0', 'p5000'].map((id) => projects.has(id, 5_000)),
    [true, true],
  )
  for (let i = 5_001; i <= 10_000; i++) projects.add(`p${i}`, i)
  t.strictSame(
    ['p0', 'p1', 'p10000'].map((id) => projects.has(id, 10_000)),
    [true, false, true],
    'the first one was asked about in the meantime',
  )
})
