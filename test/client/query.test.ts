import t from 'tap'
import { type DefinitionInput, type Filter, type QuestionInput, Tallyhouse } from '../../src/client/index.js'
import { SECRET_KEY } from '../helper.js'
import { addressOf } from '../live-stream.js'
import { newProject } from '../shared-app.js'
import { answer, failure, faultyServer } from './faulty-server.js'

const DAY = 86_400_000
const range = { from: '2026-04-20', to: '2026-04-22' }

t.test('query returns the answer type of each kind of question', async (t) => {
  const project = await newProject()
  const { call } = project
  const start = Date.parse('2026-04-20T00:00:00Z')
  const events = [
    ['view', 'ada', 0],
    ['buy', 'ada', 60_000],
    ['view', 'bob', DAY],
  ].map(([event, distinct_id, at]) => ({ event, distinct_id, timestamp: start + Number(at), properties: { n: at } }))
  await call('POST', '/public/track/batch', { events })
  const tallyhouse = new Tallyhouse({ url: await addressOf(project), secretKey: project.keys.secret })

  const series = await tallyhouse.query({ kind: 'series', series: [{ event: 'view', metric: 'users' }], ...range })
  t.strictSame(
    series.results.map(({ total, points }) => [total, points.map(({ at, value }) => [at, value])]),
    [
      [
        2,
        [
          ['2026-04-20T00:00:00+00:00', 1],
          ['2026-04-21T00:00:00+00:00', 1],
        ],
      ],
    ],
  )
  t.strictSame([series.kind, series.query.interval, series.query.where, series.pending], ['series', 'day', null, 0])
  t.notOk('status' in series)

  const steps: DefinitionInput[] = [{ event: 'view', where: ['lt', 'properties.n', 5] }, { event: 'buy' }]
  const funnel = await tallyhouse.query({ kind: 'funnel', steps, window: '1h', ...range })
  t.strictSame(
    funnel.results[0]?.steps.map(({ users, median_ms }) => [users, median_ms]),
    [
      [1, null],
      [1, 60_000],
    ],
  )

  const where: Filter = ['lt', 'properties.n', Number.POSITIVE_INFINITY]
  const below = await tallyhouse.query({ kind: 'series', series: [{ event: 'view' }], where, ...range })
  t.equal(below.results[0]?.total, 2)
  t.strictSame(below.query.where, where)

  const retention = await tallyhouse.query({ kind: 'retention', start: 'view', return: 'buy', ...range })
  t.strictSame(
    retention.results.map(({ cohort, size }) => [cohort, size]),
    [
      ['2026-04-20', 1],
      ['2026-04-21', 1],
    ],
  )
  t.equal(retention.averages[0]?.share, 0.5)

  const of = { kind: 'paths', start: { event: 'view' }, steps: 1, ...range } as const
  const paths = await tallyhouse.query(of)
  t.strictSame(paths.results.links, [{ step: 0, from: 'view', to: 'buy', users: 1 }])
  const users = await tallyhouse.query({ kind: 'users', of, cell: { step: 0, event: 'view' } })
  t.strictSame(users.results.users, ['ada', 'bob'])

  // @ts-expect-error a funnel has steps, and no series
  const wrong: QuestionInput = { kind: 'funnel', series: [] }
  await t.rejects(tallyhouse.query(wrong), { code: 'invalid_request', status: 400, details: [{ path: '/steps' }] })
  const stop = new AbortController()
  const asked = tallyhouse.query(of, { signal: stop.signal })
  stop.abort()
  await t.rejects(asked, { code: 'aborted' })
})

t.test('eventNames, propertyNames and fieldValues list names', async (t) => {
  const project = await newProject()
  const { call } = project
  const events = ['pro', 'free', 'pro'].map((plan, i) => {
    return { event: i < 2 ? 'sign up' : 'view', distinct_id: 'ada', timestamp: i, properties: { plan, 'a.b': i } }
  })
  await call('POST', '/public/track/batch', { events })
  const tallyhouse = new Tallyhouse({ url: await addressOf(project), secretKey: project.keys.secret })
  t.strictSame(await tallyhouse.eventNames(), {
    events: [
      { event: 'sign up', count: 2, first_seen: 0, last_seen: 1 },
      { event: 'view', count: 1, first_seen: 2, last_seen: 2 },
    ],
    pending: 0,
  })
  const all = await tallyhouse.propertyNames()
  t.strictSame(
    [all.properties.map(({ property }) => property).sort(), all.sampled, all.pending],
    [['a.b', 'plan'], 3, 0],
  )
  const { properties } = await tallyhouse.propertyNames({ event: 'view' })
  t.match(properties, [
    { property: 'a.b', share: 1, types: [{ type: 'number', share: 1 }], examples: [2] },
    { property: 'plan', examples: ['pro'] },
  ])
  const plans = await tallyhouse.fieldValues('properties.plan', { search: 'R', limit: 1 })
  t.strictSame(plans, { values: [{ value: 'pro', count: 2 }], sampled: 3, pending: 0 })
  const { values } = await tallyhouse.fieldValues(['properties', 'a.b'], { event: 'view' })
  t.strictSame(values, [{ value: 2, count: 1 }])
  await t.rejects(tallyhouse.fieldValues('plan'), { code: 'invalid_request' })
  await t.rejects(tallyhouse.eventNames({ signal: AbortSignal.abort() }), { code: 'aborted' })
})

t.test('query waits for a slot, and does not retry permanent failures', async (t) => {
  const { url, received } = await faultyServer(t, [
    failure(503, 'overloaded'),
    answer(200, '{"status":1,"error":null,"kind":"paths","results":{"nodes":[],"links":[]}}'),
    failure(422, 'query_too_large'),
  ])
  const tallyhouse = new Tallyhouse({ url, secretKey: SECRET_KEY, retry: { baseDelayMs: 1, maxDelayMs: 1 } })
  const question = { kind: 'paths', end: 'a' } as const
  t.strictSame((await tallyhouse.query(question)).results, { nodes: [], links: [] })
  await t.rejects(tallyhouse.query(question), { code: 'query_too_large', status: 422 })
  t.strictSame(
    received.map((request) => [request.method, request.url]),
    Array.from({ length: 3 }, () => ['POST', '/public/query']),
  )
})
