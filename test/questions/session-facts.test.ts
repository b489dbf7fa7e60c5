import fc from 'fast-check'
import t from 'tap'
import { Shards } from '../../src/clickhouse/shards.js'
import { DEFAULT_SETTINGS } from '../../src/contract/project-settings.js'
import { formatEventId } from '../../src/model/event-id.js'
import { Questions } from '../../src/questions/run.js'
import { SessionFactsSource } from '../../src/questions/session-facts-source.js'
import { hasAliases } from '../../src/store/aliases.js'
import { FACT_COLUMNS, selectFacts } from '../../src/store/fact-columns.js'
import { readSessionDays, SESSION_FACT_COLUMNS } from '../../src/store/session-facts.js'
import { emptyClickHouse } from '../shared-engine.js'

const { signal } = new AbortController()
const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const START = Date.parse('2025-06-02')
/** Most sessions are short; some are reused days later, or go on for longer than a day. */
const DAYS = 9
const PAGES = ['https://shop.example/', 'https://shop.example/a?utm_source=news&utm_medium=email', '']
const REFERRERS = ['', 'https://www.google.com/', 'https://blog.example/']

const moment = fc
  .tuple(fc.nat(DAYS * 12), fc.constantFrom(0, 1, HOUR_MS, DAY_MS - 2 * HOUR_MS))
  .map(([slot, more]) => START + slot * 2 * HOUR_MS + more)
const session = fc.constantFrom('', 's1', 's2', 's3', 's4', 's5', 's6')
const event = fc.record({
  event: fc.constantFrom('$pageview', '$pageview', 'buy', 'x'),
  distinct_id: fc.constantFrom('ann', 'bob', 'cy', '$anonymous'),
  timestamp: moment,
  session_id: session,
  country: fc.constantFrom('', 'AT', 'US'),
  bot: fc.constantFrom(0, 0, 1),
  properties: fc
    .tuple(fc.constantFrom(...PAGES), fc.constantFrom(...REFERRERS))
    .map(([url, referrer]) => JSON.stringify({ ...(url && { url }), ...(referrer && { referrer }) })),
})
/** A later call of a session keeps its start. */
const call = fc.record({
  session_id: session.filter((id) => id !== ''),
  distinct_id: fc.constantFrom('ann', 'bob', 'dee'),
  seconds: fc.constantFrom(0, 60, 30 * 3600),
  country: fc.constantFrom('', 'DE'),
  is_deleted: fc.constantFrom(0, 0, 0, 1),
})
const stage = fc.record({
  events: fc.array(event, { minLength: 1, maxLength: 12 }),
  calls: fc.array(call, { maxLength: 3 }),
  /** days of which session facts are made then */
  days: fc.option(fc.tuple(fc.integer({ min: -2, max: DAYS + 1 }), fc.integer({ min: 1, max: 5 }))),
})
const stages = fc.array(stage, { minLength: 2, maxLength: 4 })
const starts = fc.array(moment, { minLength: 6, maxLength: 6 })

const range = fc
  .tuple(fc.nat(DAYS * 2), fc.integer({ min: 1, max: DAYS * 2 }))
  .map(([at, length]) => ({ from: START + (at * DAY_MS) / 2, to: START + ((at + length) * DAY_MS) / 2 }))
const visits = (where?: unknown) => ({ event: '$session', ...(where !== undefined && { where }) })
const series = (one: object, rest: object = {}) => ({ kind: 'series', series: [one], interval: 'none', ...rest })
const by = (field: string, metric?: string) =>
  series({ ...visits(), ...(metric && { metric }) }, { breakdown: [field] })
const QUESTIONS: object[] = [
  series(visits()),
  series({ ...visits(), metric: 'users' }),
  series({ ...visits(['is', 'session.bounced', [true]]), metric: 'avg', property: 'session.seconds' }),
  series(visits(['session_has', { event: 'buy' }])),
  series(visits(['session_has', { event: ['buy', 'x'] }])),
  series(visits(['session_has', { event: 'buy', where: ['is', 'distinct_id', ['ann']] }])),
  ...['channel', 'source', 'path', 'referrer', 'medium', 'host'].map((name) => by(`session.entry.page.${name}`)),
  ...['session.exit.page.path', 'context.country', 'context.bot', 'session.id', 'session.start', 'session.pages'].map(
    (field) => by(field, 'users'),
  ),
  by('distinct_id'),
  by('session.events'),
  by('session.exit.page.source'),
  by('session.state'),
  series({ event: '$pageview', metric: 'users' }, { breakdown: ['session.entry.page.source'] }),
  series({ event: '*' }, { breakdown: ['session.start'], where: ['session_has', { event: 'buy' }] }),
  { kind: 'funnel', steps: [visits(), { event: 'buy' }] },
  { kind: 'retention', start: visits(), return: visits(), unit: 'day' },
  // These also read the surroundings of the range.
  { kind: 'funnel', steps: [{ event: 'x' }, visits(['gt', 'session.events', 1])], window: '3d' },
  { kind: 'paths', end: { event: 'x' }, where: ['is', 'session.pages', [0, 1]], window: '3d' },
]

t.test('questions about sessions have the same answers from their facts, whatever came later', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const shards = Shards.of(clickhouse)
  const insert = async (table: string, rows: object[]) => {
    if (rows.length === 0) return
    await clickhouse.command(
      `INSERT INTO ${table} FORMAT JSONEachRow ${rows.map((row) => JSON.stringify(row)).join('\n')}`,
    )
  }
  let used = 0
  let projects = 0
  /** A project whose events come in stages, each copied as a step; some steps are followed by session facts. */
  const open = async (given: {
    stages: typeof stages extends fc.Arbitrary<infer T> ? T : never
    starts: number[]
    tail: boolean
    maxChanged?: number | undefined
  }) => {
    const project = `project ${++projects}`
    const source = new SessionFactsSource({
      shards,
      facts: { readColumns: async () => new Set() },
      getSettings: () => DEFAULT_SETTINGS,
      getExpiry: () => null,
    })
    let version = 0
    let hi = 0n
    let step = 0
    for (const [index, { events, calls, days }] of given.stages.entries()) {
      const position = BigInt(START + index) << 16n
      const ids = events.map((_, at) => formatEventId({ position, index: at, journalId: 1 }))
      await insert(
        'events',
        events.map((one, at) => ({ ...one, project_id: project, event_id: ids[at], received_at: 0 })),
      )
      await insert(
        'sessions',
        calls.map(({ seconds, ...one }) => {
          const started_at = given.starts[Number(one.session_id.slice(1)) - 1] ?? START
          const times = one.is_deleted
            ? { started_at: 0, updated_at: 0 }
            : { started_at, updated_at: started_at + seconds * 1000 }
          return { ...one, ...times, project_id: project, state: 'active', properties: '{}', version: ++version }
        }),
      )
      // The last events are not copied yet.
      if (given.tail && index === given.stages.length - 1) continue
      step++
      const [row] = await clickhouse.rows<{ hi: string }>(
        `SELECT toString(max(toUInt128(event_id))) AS hi FROM events WHERE project_id = '${project}'`,
      )
      const where = `project_id = '${project}' AND toUInt128(event_id) > toUInt128('${hi}')`
      await clickhouse.command(
        `INSERT INTO event_facts (${FACT_COLUMNS.join(', ')}) ${selectFacts('events', where, String(step))}`,
      )
      hi = BigInt(row?.hi ?? 0)
      if (!days) continue
      const [first, count] = days
      const columns = SESSION_FACT_COLUMNS.filter((name) => !['project_id', 'definition', 'fill'].includes(name)).join(
        ', ',
      )
      const at = { from: START + first * DAY_MS, to: START + (first + count) * DAY_MS }
      const { sql, parameters, settings } = await source.select(project, { ...at, step, repairsTexts: false })
      const own = `'${project}', toUInt64('${source.define(project)}')`
      await clickhouse.command(
        `INSERT INTO session_facts (project_id, definition, fill, ${columns}) SELECT ${own}, ${index + 1}, ${columns} FROM (${sql})`,
        parameters,
        settings,
      )
      await clickhouse.command(
        `INSERT INTO session_fact_days (project_id, definition, day, fill, step, calls)
         SELECT ${own}, addDays(toDate32('1970-01-01'), ${START / DAY_MS} + number), ${index + 1}, ${step}, ${version}
         FROM (SELECT ${first} + number AS number FROM numbers(${count}))`,
      )
    }
    const shard = {
      hi,
      step,
      epoch: 1,
      begun: step,
      generation: 1,
      changes: '',
      isStepping: false,
      hasLater: given.tail,
    }
    const point = { shards: [shard], order: [0], isStepping: false, isMoving: false, hasLater: given.tail }
    const sessionDays = await readSessionDays(clickhouse, project)
    const ask = (facts: boolean) => {
      const questions = new Questions({
        shards,
        barrier: { waitForProject: async () => ({ stored: 0n, pending: 0, deletions: '' }) },
        aliases: { hasAny: (id) => hasAliases(shards, id) },
        limits: { QUERY_TIMEOUT: 600, QUERY_MEMORY: 1 << 30 },
        now: () => START + DAYS * DAY_MS,
        load: { isShort: true },
        maxChanged: given.maxChanged,
        ...(facts && {
          facts: {
            point: async () => ({ ...point, sessionDays }),
            stillHolds: async () => true,
            readColumns: async () => new Set<string>(),
            forgetColumns: () => undefined,
            noteSlow: async () => undefined,
            noteUsed: async () => undefined,
            noteSessions: async (_: string, { isUsed }: { isUsed: boolean }) => {
              if (isUsed) used++
            },
            noteDamage: async () => undefined,
          },
        }),
      })
      return async (question: object) => {
        const { results } = await questions.ask(project, question, signal)
        return results
      }
    }
    return { fromFacts: ask(true), fromEvents: ask(false) }
  }
  const property = fc.asyncProperty(
    // With 0, statements look for changed sessions themselves.
    fc.record({ stages, starts, tail: fc.boolean(), maxChanged: fc.constantFrom(undefined, 0) }),
    fc.array(fc.tuple(fc.constantFrom(...QUESTIONS), range), { minLength: 4, maxLength: 4 }),
    async (given, asked) => {
      const { fromFacts, fromEvents } = await open(given)
      for (const [question, at] of asked) {
        const body = { ...question, ...at, timezone: 'Europe/Vienna' }
        const expected = await fromEvents(body)
        const found = await fromFacts(body)
        if (JSON.stringify(sorted(found)) === JSON.stringify(sorted(expected))) continue
        throw new Error(`${JSON.stringify(body)}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`)
      }
    },
  )
  const numRuns = Number(process.env.SESSION_RUNS ?? 1)
  await fc.assert(property, { numRuns })
  t.ok(used > 0, `${used} answers had sessions of facts`)

  const one = (event: '$pageview' | 'buy' | 'x', hours: number, session_id: '' | 's1' | 's2' | 's3' = '') => {
    const sender = { distinct_id: 'ann', country: '', bot: 0 } as const
    return { event, ...sender, timestamp: START + hours * HOUR_MS, session_id, properties: '{}' }
  }
  // With the range below and a window of 3 days, a funnel reads events up to the 144th hour.
  const events = [
    ...[one('$pageview', 35, 's1'), one('buy', 58, 's1'), one('x', 61)],
    ...[one('$pageview', 94, 's2'), one('buy', 95, 's2'), one('buy', 97, 's2'), one('x', 96, 's3')],
  ]
  const days: [number, number] = [0, 6]
  const { fromFacts, fromEvents } = await open({ stages: [{ events, calls: [], days }], starts: [], tail: false })
  const at = { from: START + 60 * HOUR_MS, to: START + 72 * HOUR_MS }
  const isPart = (count: number) => ['is', 'session.events', [count]]
  const cases: [question: object, wanted: object][] = [
    [
      { kind: 'funnel', steps: [{ event: 'x' }, visits(isPart(2))], window: '3d' },
      { steps: [{ users: 1 }, { users: 0 }] },
    ],
    [
      { kind: 'funnel', steps: [{ event: 'x' }, visits(isPart(3))], window: '3d' },
      { steps: [{ users: 1 }, { users: 1 }] },
    ],
    [
      { kind: 'funnel', steps: [{ event: 'x' }, visits(isPart(1))], window: '3d' },
      { steps: [{ users: 1 }, { users: 1 }] },
    ],
    [
      { kind: 'paths', end: 'x', where: ['or', [['is', 'event', ['x']], isPart(2)]], window: '30h' },
      { nodes: [{ event: 'x' }, { event: 'buy' }, { event: '$pageview' }] },
    ],
  ]
  for (const [question, wanted] of cases) {
    for (const [name, ask] of Object.entries({ fromEvents, fromFacts })) {
      const results = await ask({ ...question, ...at })
      t.match([results].flat()[0], wanted, `${name}: ${JSON.stringify(question)}`)
    }
  }

  // The call is from a day without rows.
  const called = await open({
    stages: [
      {
        events: [one('buy', 30, 's1'), one('x', 49)],
        calls: [{ session_id: 's1', distinct_id: 'ann', seconds: 60, country: '', is_deleted: 0 }],
        days: [1, 1],
      },
    ],
    starts: [START + 23 * HOUR_MS],
    tail: false,
  })
  for (const [name, ask] of Object.entries({ fromEvents: called.fromEvents, fromFacts: called.fromFacts })) {
    const where = [
      'or',
      [
        ['is', 'event', ['x']],
        ['gte', 'session.events', 1],
      ],
    ]
    const days = { from: START + 48 * HOUR_MS, to: START + 72 * HOUR_MS }
    const results = await ask({ kind: 'paths', end: 'x', where, window: '30h', ...days })
    t.match([results].flat()[0], { nodes: [{ event: 'x' }, { event: 'buy' }] }, name)
  }
})

/** Values with the same number may come in any order. */
function sorted(results: unknown): unknown {
  return Array.isArray(results) ? [...results].map((one) => JSON.stringify(one)).sort() : results
}

t.test('a fill turns off the rewrites of plans that questions turn off', async (t) => {
  const { clickhouse } = await emptyClickHouse()
  const source = new SessionFactsSource({
    shards: Shards.of(clickhouse),
    facts: { readColumns: async () => new Set() },
    getSettings: () => DEFAULT_SETTINGS,
    getExpiry: () => null,
  })
  const { settings } = await source.select('default', { from: START, to: START + DAY_MS, step: 1, repairsTexts: false })
  t.match(settings, { query_plan_merge_expressions: 0 }, 'otherwise a fill takes 10 ms per session')
})
