import fc from 'fast-check'
import t from 'tap'
import { DEFAULT_SETTINGS } from '../../../src/contract/project-settings.js'
import { readQuestion } from '../../../src/questions/parse.js'
import { parseControls } from '../../../src/web/lib/board-controls.js'
import { buildRequest, buildRequestBefore } from '../../../src/web/lib/build-request.js'
import { setProjectSettings } from '../../../src/web/lib/project-settings.js'
import {
  changeRange,
  chooseVisualization,
  completeDraft,
  convertDraft,
  createDraft,
  type Draft,
  dropIncompleteFilters,
  findGaps,
  KINDS,
  linkToExplore,
  omitProjectDefaults,
  parseDraft,
  parseExploreQuery,
  toQuestion,
} from '../../../src/web/lib/question.js'
import { PRESETS } from '../../../src/web/lib/range.js'
import { parseRoute } from '../../../src/web/lib/route.js'

const NOW = Date.parse('2026-05-20T22:30:00Z')
const MOMENT = { now: NOW, first: Date.parse('2024-05-19T20:00:00Z') }

t.test('linkToExplore and parseExploreQuery keep the whole state', (t) => {
  const link = fc.record({
    question: fc.jsonValue(),
    display: fc.record(
      {
        as: fc.constantFrom('line' as const, 'table' as const),
        range: fc.constantFrom(...PRESETS),
        compare: fc.constant(true),
      },
      { requiredKeys: [], noNullPrototype: true },
    ),
    saved: fc.string(),
  })
  fc.assert(
    fc.property(link, ({ question, display, saved }) => {
      const { view, query } = parseRoute(linkToExplore(question, display, saved))
      t.equal(view, 'explore')
      t.strictSame(parseExploreQuery(query), { text: JSON.stringify(question), display, saved })
    }),
  )
  const infinite = { where: ['between', 'properties.a', [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]] }
  const { text } = parseExploreQuery(parseRoute(linkToExplore(infinite)).query)
  t.strictSame(JSON.parse(text), infinite)
  t.strictSame(parseExploreQuery(new URLSearchParams('q={}&as=cake&range=1000y&compare=yes')), {
    text: '{}',
    display: {},
    saved: '',
  })
  t.end()
})

t.test('parseDraft fills in the defaults of the service, and toQuestion omits them', (t) => {
  const examples: object[] = [
    { kind: 'series', series: [{ event: 'a' }] },
    {
      kind: 'series',
      series: [{ event: ['a', 'b'], metric: 'percentile', property: ['properties', 'a.b'], p: 90 }],
      limit: 3,
    },
    {
      kind: 'funnel',
      steps: [{ event: 'a' }, { event: '*', where: ['set', 'user.a'] }],
      exclude: [{ event: 'c', after: 1 }],
    },
    { kind: 'retention', start: 'a', return: { event: 'b' }, unit: 'week', where: ['is', 'user.a', [null, 1]] },
    { kind: 'paths', end: 'a', steps: 2, timezone: 'Asia/Tokyo' },
  ]
  for (const example of examples) {
    const draft = parseDraft(example)
    if (!draft) return t.fail(JSON.stringify(example))
    const range = { from: '2026-05-01', to: '2026-05-08' }
    t.strictSame(
      readQuestion({ ...toQuestion(draft), ...range }, NOW).question,
      readQuestion({ ...example, ...range }, NOW).question,
    )
    t.strictSame(parseDraft(toQuestion(draft)), draft)
    t.match(readQuestion({ ...draft, ...range }, NOW).question, draft, 'the defaults are the same')
    t.strictSame(readQuestion({ ...draft, ...range }, NOW).warnings, [], 'the service knows every field')
  }
  t.end()
})

t.test('parseDraft accepts anything that a link may contain', (t) => {
  const field = fc.oneof(fc.jsonValue(), fc.constantFrom('a', ['a'], [{ event: 'a' }], { event: 'a' }, 3, '7d'))
  const names = [
    'series',
    'steps',
    'start',
    'end',
    'return',
    'where',
    'breakdown',
    'interval',
    'exclude',
    'limit',
    'from',
  ]
  const question = fc.dictionary(fc.constantFrom(...names), field)
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), question), fc.constantFrom(...KINDS, 'users'), (value, kind) => {
      const draft = parseDraft(typeof value === 'object' ? { ...value, kind } : value)
      if (!draft) return
      toQuestion(dropIncompleteFilters(draft))
      findGaps(draft)
      completeDraft(draft, null)
      chooseVisualization(draft, {})
      for (const other of KINDS) convertDraft(draft, other)
    }),
  )
  for (const value of [null, 1, 'a', [], {}, { kind: 'users' }, { kind: 'funnel', steps: 'a' }])
    t.equal(parseDraft(value), null)
  t.end()
})

t.test('only numbers that add up are stacked', async (t) => {
  const choose = (question: object) => {
    const draft = parseDraft({ kind: 'series', ...question })
    return draft && chooseVisualization(draft, { as: 'area' })
  }
  const users = { event: 'a', metric: 'users' }
  t.equal(choose({ series: [{ event: 'a' }, { event: 'b' }], breakdown: ['properties.plan'] }), 'area')
  t.equal(choose({ series: [users] }), 'area', 'a single line is not a sum')
  t.equal(choose({ series: [users], breakdown: ['properties.plan'] }), 'line')
  t.equal(choose({ series: [users, { event: 'a' }] }), 'line')
})

t.test('time zone and week start default to those of the project', async (t) => {
  const own = { timezone: 'Asia/Tokyo', week_start: 'sunday' } as const
  const other = { timezone: 'UTC', week_start: 'monday' } as const
  t.teardown(() => setProjectSettings(DEFAULT_SETTINGS))
  setProjectSettings({ ...DEFAULT_SETTINGS, ...own })
  for (const kind of KINDS) {
    const draft = createDraft(kind, 'a')
    t.match(draft, own)
    const question = toQuestion(draft)
    t.notMatch(JSON.stringify(question), /timezone|week_start/, 'it follows the project')
    t.match(buildRequest(question, {}, MOMENT), own, 'but the shown question is the one asked')
    if (kind !== 'funnel') t.match(readQuestion(question, MOMENT.now, own).question, own, 'the service takes the same')
    t.match(toQuestion({ ...draft, ...other }), other, 'choices are kept')
    t.match(convertDraft({ ...draft, ...other }, 'paths'), other)
    t.match(parseDraft({ ...question, ...other }), other)
  }
  t.match(parseControls(null), own)
  t.match(parseControls(other), other)
  t.strictSame(omitProjectDefaults({ ...own, range: '7d' }), { range: '7d' })
  t.strictSame(omitProjectDefaults(other), other)
})

t.test('findGaps uses the paths of the service', (t) => {
  const gaps = (draft: object) => findGaps(draft as Draft).map(({ path }) => path)
  t.strictSame(gaps(createDraft('funnel', 'a')), ['/steps/1/event'])
  t.strictSame(gaps({ kind: 'series', series: [{ event: '', metric: 'sum' }] }), [
    '/series/0/event',
    '/series/0/property',
  ])
  t.strictSame(gaps(createDraft('retention', 'a')), [])
  t.strictSame(gaps(createDraft('paths', '')), ['/start/event'])
  t.end()
})

t.test('dropIncompleteFilters removes incomplete filters', (t) => {
  const where = [
    'and',
    [
      ['is', 'properties.a', []],
      [
        'or',
        [
          ['contains', 'event', ''],
          ['set', ''],
        ],
      ],
      ['is', 'event', ['a']],
    ],
  ]
  const draft = parseDraft({ kind: 'series', series: [{ event: 'a', where: ['gt', 'properties.a', ''] }], where })
  t.match(draft && dropIncompleteFilters(draft), {
    where: ['and', [['is', 'event', ['a']]]],
    series: [{ where: null }],
  })
  t.end()
})

t.test('buildRequest resolves relative ranges in the time zone, also for the period before', (t) => {
  const question = { kind: 'series', series: [{ event: 'a' }], timezone: 'Asia/Tokyo' }
  const both = (display: object, more = {}) => [
    buildRequest({ ...question, ...more }, display, MOMENT),
    buildRequestBefore({ ...question, ...more }, { ...display, compare: true }, MOMENT)?.request ?? null,
  ]
  t.match(both({}), [
    { from: '2026-04-22', to: '2026-05-22' },
    { from: '2026-03-23', to: '2026-04-21T07:31' },
  ])
  t.match(both({ range: 'today' }), [
    { from: '2026-05-21', to: '2026-05-22' },
    { from: '2026-05-20', to: '2026-05-20T07:31' },
  ])
  t.match(both({ range: '12m' }), [
    { from: '2025-05-22', to: '2026-05-22' },
    { from: '2024-05-22', to: '2025-05-21T07:31' },
  ])
  t.match(both({ range: '7d' }, { from: '2026-03-01', to: '2026-03-31' }), [
    { from: '2026-03-01', to: '2026-03-31' },
    { from: '2026-01-30', to: '2026-03-01' },
  ])
  t.match(both({}, { from: 1000, to: 3000 }), [{ from: 1000, to: 3000 }, null])
  t.match(both({ range: 'all' }), [{ from: '2024-05-20', to: '2026-05-22' }, null])
  t.equal(buildRequestBefore({ ...question, from: '2026-05-02', to: '2026-05-01' }, { compare: true }, MOMENT), null)
  t.equal(buildRequestBefore(question, {}, MOMENT), null)
  t.strictSame(
    buildRequest({ kind: 'unknown' }, {}, MOMENT),
    { kind: 'unknown' },
    'a question that cannot be edited is asked unchanged',
  )
  t.end()
})

t.test('convertDraft keeps the range, the filter and the first event', (t) => {
  const draft = parseDraft({ kind: 'series', series: [{ event: 'a' }], from: '2026-01-01', where: ['set', 'user.a'] })
  if (!draft) throw new Error('it is a question')
  t.match(convertDraft(draft, 'retention'), { start: { event: 'a' }, from: '2026-01-01', where: ['set', 'user.a'] })
  t.equal(convertDraft(draft, 'series'), draft)
  t.end()
})

t.test('the interval of a series depends on its range until it is chosen', async (t) => {
  const draft = createDraft('series', 'a')
  const ask = (draft: Draft, range: (typeof PRESETS)[number]) => buildRequest(toQuestion(draft), { range }, MOMENT)
  t.match(ask(draft, 'today'), { interval: 'hour' })
  t.match(ask(draft, '7d'), { interval: 'day' })
  const daily = { ...draft, interval: 'day' } as Draft
  t.match(ask(daily, 'today'), { interval: 'day' }, 'a chosen one stays')
  const choice = { timezone: 'UTC', week_start: 'monday' } as const
  t.match(changeRange(daily, { ...choice, range: '30d' }, NOW), { interval: 'day' })
  t.equal('interval' in changeRange(daily, { ...choice, range: 'yesterday' }, NOW), false, 'it would be one point')
})

t.test('completeDraft keeps the last complete events, but not the last range', async (t) => {
  const last = parseDraft({ kind: 'series', series: [{ event: 'a' }] })
  const added = parseDraft({
    kind: 'series',
    series: [{ event: 'a' }, { event: '' }],
    from: '2026-05-01',
    to: '2026-05-02',
  })
  const summed = parseDraft({ kind: 'series', series: [{ event: 'a', metric: 'sum' }] })
  const funnel = parseDraft({ kind: 'funnel', steps: [{ event: 'a' }, { event: '' }, { event: 'b' }] })
  if (!last || !added || !summed || !funnel) throw new Error('they can be edited')
  t.match(completeDraft(added, last), { series: [{ event: 'a' }], from: '2026-05-01' })
  t.match(completeDraft(summed, last), { series: [{ event: 'a', metric: 'events' }] })
  t.equal(completeDraft(summed, null), null)
  t.match(completeDraft(funnel, last), { steps: [{ event: 'a' }, { event: 'b' }] })
  t.equal(completeDraft(createDraft('funnel', 'a'), last), null)
  t.equal(completeDraft(last, null), last)
})
