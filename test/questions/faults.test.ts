import t from 'tap'
import { ApiError } from '../../src/contract/errors.js'
import { Faults } from '../../src/questions/faults.js'
import { checkQuestion, readQuestion } from '../../src/questions/parse.js'

const NOW = Date.parse('2026-05-20T22:30:00Z')
const START = { kind: 'retention', start: 'a', return: 'b' }
const SERIES = { kind: 'series', series: [{ event: 'a' }] }
const FUNNEL = { kind: 'funnel', steps: [{ event: 'a' }, { event: 'b' }] }

/** A filter with so many conditions about the session. */
function ofSession(count: number) {
  return ['or', Array.from({ length: count }, (_, i) => ['gt', 'session.pages', i])]
}

/** The details of the error of a question; none if it has no fault. */
function faultsIn(question: unknown) {
  try {
    readQuestion(question, NOW)
    return []
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'invalid_request') throw error
    return error.details ?? []
  }
}

t.test('a property without its source is shown with it', (t) => {
  const question = { ...SERIES, breakdown: ['plan', ['a.b']], where: ['set', 'utm.source'] }
  t.strictSame(
    faultsIn(question).map(({ message }) => message.split(', such as ')[1]),
    ['properties.utm.source', 'properties.plan', '["properties","a.b"]'],
  )
  t.end()
})

const WEEK = { from: '2026-03-02', to: '2026-03-08', timezone: 'Europe/Vienna' }

t.test('readQuestion names every fault with its path', (t) => {
  const cases: [question: unknown, ...paths: string[]][] = [
    [[], '', '/kind'],
    [{ kind: 'toString' }, '/kind'],
    [{ kind: 'series' }, '/series'],
    [{ ...SERIES, series: Array(11).fill({ event: 'a' }) }, '/series'],
    [
      { kind: 'series', series: [{ event: 1, metric: 'sum' }], timezone: 'x', limit: 0, other: 'no' },
      ...['/timezone', '/series/0/event', '/series/0/property', '/limit', '/other'],
    ],
    [{ kind: 'series', series: [{ event: ['a', ''], metric: 'most' }] }, '/series/0/event/1', '/series/0/metric'],
    [
      { kind: 'series', series: [{ event: 'a', metric: 'percentile', property: 'price', p: 101 }] },
      ...['/series/0/property', '/series/0/p'],
    ],
    [{ ...SERIES, breakdown: ['properties', ['properties', 'a.b']] }, '/breakdown/0'],
    [{ ...SERIES, from: '2026-02-30', to: -1 }, '/from', '/to'],
    [{ ...SERIES, from: -1, to: 10_000_000_000_001 }, '/to', '/from'],
    [{ ...SERIES, from: '2026-01-02', to: '2026-01-02' }, '/from'],
    [{ ...SERIES, from: 1, interval: 'hour' }, '/interval'],
    [{ ...SERIES, breakdown: ['event'], limit: 1000, from: '2026-01-01', interval: 'hour' }, '/limit'],
    [{ ...FUNNEL, steps: [null, {}], window: '367d' }, '/steps/0', '/steps/0/event', '/steps/1/event', '/window'],
    [{ ...FUNNEL, exclude: [{ event: 'c', after: 2 }, { event: 'd' }] }, '/exclude/1/after', '/exclude/0/after'],
    [{ ...START, start: '', return: {}, breakdown: ['event'] }, '/start/event', '/return/event', '/breakdown'],
    [{ ...START, breakdown: [], from: null, unit: null }],
    [{ kind: 'paths' }, '/start'],
    [{ ...SERIES, breakdown: ['session.bogus', 'page.colour'] }, '/breakdown/0', '/breakdown/1'],
    [{ ...SERIES, breakdown: ['session.entry.session.id', 'context'] }, '/breakdown/0', '/breakdown/1'],
    [{ ...SERIES, breakdown: [['session', 'first', 'properties', 'a.b'], 'session.exit.page.path'] }],
    [{ ...SERIES, sessions: 'gap' }, '/sessions'],
    [{ ...SERIES, sessions: { gap: '25h' } }, '/sessions/gap'],
    [{ ...SERIES, sessions: { gap: '30m', where: ['set', 'session.id'] } }, '/sessions/where/1'],
    [{ ...SERIES, where: ['session_has', { event: 'a', where: ['is', 'event', ['a']] }] }],
    [{ ...SERIES, where: ['session_has', 'a'] }, '/where'],
    [{ ...SERIES, where: ['session_has', { event: '' }] }, '/where/1/event'],
    [{ ...SERIES, where: ['session_has', { event: 'a', where: ['session_has', { event: 'b' }] }] }],
    [{ ...SERIES, where: ['session_has', { event: 'a', where: ofSession(4) }] }],
    [{ ...SERIES, where: ['session_has', { event: 'a', where: ofSession(5) }] }, '/where/1/where'],
    // 4 times 16 tests of events are the most that a question can have.
    [{ ...SERIES, where: ['and', Array(4).fill(['session_has', { event: 'a', where: ofSession(4) }])] }],
    [
      { ...SERIES, where: ['and', Array(5).fill(['session_has', { event: 'a', where: ofSession(4) }])] },
      '/where/1/4/1/where',
    ],
    [
      { ...SERIES, sessions: { gap: '30m', where: ['session_has', { event: 'a', where: ['set', 'session.id'] }] } },
      '/sessions/where',
    ],
    [{ kind: 'paths', start: 'a', end: 'b', steps: 6 }, '/steps', '/start'],
    [{ kind: 'users', of: { kind: 'users' } }, '/of/kind'],
    [
      { kind: 'users', of: { ...SERIES, limit: 0 }, cell: { series: 1 }, page: 0 },
      '/of/limit',
      '/page',
      '/cell/series',
    ],
    [{ kind: 'users', of: SERIES, cell: { at: 'never', breakdown: ['a'] } }, '/cell/at', '/cell/breakdown'],
    [{ kind: 'users', of: { ...SERIES, ...WEEK }, cell: { at: '2026-03-02' } }],
    [{ kind: 'users', of: { ...SERIES, ...WEEK }, cell: { at: '2026-03-02T01:00:00+01:00' } }, '/cell/at'],
    [{ kind: 'users', of: { ...SERIES, ...WEEK }, cell: { at: '2026-03-08' } }, '/cell/at'],
    [{ kind: 'users', of: { ...SERIES, ...WEEK, interval: 'month' }, cell: { at: '2026-03-01T00:00:00+01:00' } }],
    [{ kind: 'users', of: { ...SERIES, ...WEEK, interval: 'none' }, cell: { at: '2026-03-02T00:00:00+01:00' } }],
    [{ kind: 'users', of: { ...SERIES, from: 1.5, to: 9, interval: 'none' }, cell: { at: '1970-01-01T00:00:00.001' } }],
    [{ kind: 'users', of: { ...SERIES, ...WEEK, interval: 'none' }, cell: { at: '2026-03-03' } }, '/cell/at'],
    [{ kind: 'users', of: { ...START, ...WEEK, unit: 'week' }, cell: { cohort: '2026-03-02' } }],
    [{ kind: 'users', of: { ...START, ...WEEK, unit: 'week' }, cell: { cohort: '2026-03-03' } }, '/cell/cohort'],
    [{ kind: 'users', of: { ...SERIES, ...WEEK, timezone: 'x' }, cell: { at: '2026-03-02' } }, '/of/timezone'],
    [{ kind: 'users', of: { ...SERIES, from: 1, interval: 'hour' }, cell: { at: '2026-03-02' } }, '/of/interval'],
    [{ kind: 'users', of: FUNNEL, cell: { step: 1, dropped: true } }, '/cell/step'],
    [{ kind: 'users', of: FUNNEL, cell: {} }, '/cell/step'],
    [{ kind: 'users', of: FUNNEL }, '/cell', '/cell/step'],
    [{ kind: 'users', of: START, cell: { cohort: 'May', interval: 8 } }, '/cell/cohort', '/cell/interval'],
    [
      { kind: 'users', of: { kind: 'paths', start: 'a' }, cell: { step: 4, event: 'b', to: 'c' } },
      '/cell/step',
      '/cell/event',
    ],
  ]
  for (const [question, ...paths] of cases) {
    const found = faultsIn(question)
    t.strictSame(
      found.map(({ path }) => path),
      paths,
      JSON.stringify(question),
    )
    for (const { message } of found) t.match(message, /^(must |is |or end is )[^.]*/)
  }
  t.end()
})

t.test('a value that is too large is distinguished from one of a wrong kind', (t) => {
  const range = 'must be a time from 1970-01-01 to 2286-11-20'
  t.match(faultsIn({ ...SERIES, from: '1960-01-01', to: '9999-12-31' }), [
    { path: '/to', message: range },
    { path: '/from', message: range },
  ])
  t.match(faultsIn({ ...SERIES, series: [{ event: 'e'.repeat(256) }] }), [{ message: /^must be .*255 characters/ }])
  t.match(faultsIn({ ...SERIES, where: ['contains', 'event', 'e'.repeat(10_001)] }), [
    { path: '/where/2', message: /10000 characters/ },
  ])
  t.match(faultsIn({ ...SERIES, to: 'soon' }), [{ path: '/to', message: /^must be a date/ }])
  t.end()
})

t.test('readQuestion names every fault in the filters', (t) => {
  const nested = (levels: number): unknown => (levels === 0 ? ['set', 'event'] : ['not', nested(levels - 1)])
  const cases: [where: unknown, ...paths: string[]][] = [
    ['event', '/where'],
    [['is'], '/where'],
    [['__proto__', 'event', 'x'], '/where/0'],
    [['is', 'x', 5], '/where/1', '/where/2'],
    [
      ['and', [['gt', 'timestamp', 'soon'], ['or', 5], ['not'], ['set', 'event', 1]]],
      '/where/1/0/2',
      '/where/1/1/1',
      '/where/1/2',
      '/where/1/3',
    ],
    [['matches', 'event', ['a', 5]], '/where/2'],
    [nested(10)],
    [nested(11), '/where/1/1/1/1/1/1/1/1/1/1'],
    [['or', Array(99).fill(['set', 'event'])]],
    [['or', Array(200).fill(['set', 'event'])], '/where/1/99'],
  ]
  for (const [where, ...paths] of cases) {
    t.strictSame(
      faultsIn({ ...SERIES, where }).map(({ path }) => path),
      paths,
      JSON.stringify(where).slice(0, 100),
    )
  }
  const both = { kind: 'series', series: [{ event: 'a', where: ['or', Array(99).fill(['set', 'event'])] }] }
  const path = '/series/0/where/1/97'
  t.match(
    faultsIn({ ...both, where: ['not', ['set', 'event']] }),
    [{ path }],
    'the limit is that of the whole question',
  )
  t.end()
})

t.test('readQuestion fills in the defaults, and warns of unknown fields, outer ones first', (t) => {
  const { question, warnings } = readQuestion(
    { kind: 'series', apiKey: 'sk', series: [{ event: 'a', property: 'user.x' }], intervall: 'week', stacked: null },
    NOW,
  )
  const range = {
    from: '2026-04-21',
    to: '2026-05-21',
    timezone: 'UTC',
    week_start: 'monday',
    where: null,
    sessions: 'id',
  }
  t.strictSame(question, {
    ...{ kind: 'series', ...range, series: [{ event: 'a', where: null, metric: 'events' }], interval: 'day' },
    ...{ breakdown: [], limit: 10, other: true, approximate: false },
  })
  t.strictSame(warnings, [
    { path: '/intervall', message: 'The field intervall is ignored. Did you mean interval?' },
    {
      path: '/series/0/property',
      message: 'The field property is ignored. The fields here are event, where, metric.',
    },
  ])
  t.end()
})

t.test('checkQuestion adds the faults of several questions, one for each path and a hundred at most', (t) => {
  const faults = new Faults()
  for (let i = 0; i < 60; i++) checkQuestion({ ...SERIES, limit: 0, interval: 'year' }, `/cards/${i}`, faults, NOW)
  checkQuestion({ ...SERIES, limit: 0 }, '/cards/0', faults, NOW)
  try {
    faults.throwIfAny()
    t.fail('there are faults')
  } catch (error) {
    const details = error instanceof ApiError ? (error.details ?? []) : []
    t.equal(details.length, 100)
    t.strictSame(
      details.slice(0, 3).map(({ path }) => path),
      ['/cards/0/interval', '/cards/0/limit', '/cards/1/interval'],
    )
  }
  t.end()
})

t.test('the message about a wrong field lists the valid ones', (t) => {
  const [session, page] = faultsIn({ ...SERIES, breakdown: ['session.bogus', 'page.colour'] })
  t.match(session?.message, /^must be session\. and one of id, start, seconds, .*properties\.<name>, first\.<field>/)
  t.match(page?.message, /^must be page\. and one of url, host, path, /)
  t.end()
})
