import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { AnswerTo, Metric, SeriesQuestion } from '../../../src/contract/questions.js'
import { readQuestion } from '../../../src/questions/parse.js'
import { parseRange, splitIntoBuckets } from '../../../src/questions/time.js'
import { type AnswerTable, buildTables } from '../../../src/web/lib/answer-table.js'
import { buildRequest, buildRequestBefore } from '../../../src/web/lib/build-request.js'
import { alignBefore, chooseLimitBefore, listStarts } from '../../../src/web/lib/period-before.js'
import { addDays, fitsInterval, isDate, PRESETS } from '../../../src/web/lib/range.js'

/** An answer with a breakdown. @param totals by value; `$other` is the rest */
function answer(totals: Record<string, number>, metric: Metric = 'events'): AnswerTo<'series'> {
  const results = Object.entries(totals).map(([value, total]) => {
    const points = [{ at: '2026-05-01T00:00:00+00:00', value: total, complete: true }]
    return { series: 0, breakdown: [value], total, points }
  })
  const query = { kind: 'series', series: [{ event: '*', metric, where: null }], limit: 2, breakdown: ['properties.v'] }
  return { kind: 'series', results, query, pending: 0, elapsed_ms: 1 } as unknown as AnswerTo<'series'>
}

const listTotals = (now: AnswerTo<'series'>, before: AnswerTo<'series'>) =>
  alignBefore(now, before, 'day').results.map((line) => (line === null || line === 'unknown' ? line : line.total))

t.test('alignBefore compares each value with itself, and “Other” with everything not shown', async (t) => {
  const now = answer({ a: 10, b: 5, $other: 3 })
  t.strictSame(listTotals(now, answer({ c: 9, a: 4, d: 1 })), [4, null, 10])
  t.strictSame(listTotals(now, answer({ c: 9, b: 4 })), [null, 4, 9])
  t.strictSame(listTotals(now, answer({ b: 9, a: 4 })), [4, 9, null])
  t.strictSame(listTotals(now, answer({ b: 9, a: 4, $other: 2 })), [4, 9, 2])
  t.strictSame(listTotals(now, answer({ c: 9, b: 8, a: 4, $other: 2 })), [4, 8, 11])
})

t.test('alignBefore marks values that the answer does not include as unknown', async (t) => {
  const now = answer({ a: 10, b: 5, $other: 3 }, 'users')
  t.strictSame(listTotals(now, answer({ c: 9, b: 4, $other: 7 }, 'users')), ['unknown', 4, 'unknown'])
  t.strictSame(
    listTotals(now, answer({ c: 9, b: 4, a: 4, d: 2 }, 'users')),
    [4, 4, 'unknown'],
    'users cannot be summed',
  )
})

t.test('alignBefore marks sums, which have no drill-down', async (t) => {
  const now = answer({ a: 10, $other: 3 })
  t.match(alignBefore(now, answer({ c: 9, a: 4 }), 'day').results[1], { breakdown: ['c'], isSum: undefined })
  t.match(alignBefore(now, answer({ c: 9, a: 4, d: 1 }), 'day').results[1], {
    total: 10,
    points: [{ value: 10 }],
    isSum: true,
  })
})

t.test('chooseLimitBefore requests more values than shown, within the limit of points', async (t) => {
  t.equal(chooseLimitBefore(answer({ a: 1 })), 1000)
  const now = answer({ a: 1 })
  const [line] = now.results
  if (line?.points[0]) line.points = Array(720).fill(line.points[0])
  t.equal(chooseLimitBefore(now), 27)
})

const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'Africa/Cairo',
  'Australia/Lord_Howe',
  'Asia/Kolkata',
  'Antarctica/Troll',
  'Pacific/Apia',
]
const DAY_MS = 86_400_000
/** Two changes of clocks, and a minute. */
const DAY_SHIFT_MS = 2 * 3_600_000 + 60_001

/** The answer of the service to a question with these events, one in each hour. */
function ask(question: SeriesQuestion): AnswerTo<'series'> {
  const { interval, timezone, week_start } = question
  const range = parseRange(question)
  const count = (from: number, to: number) => Math.ceil(to / 3_600_000) - Math.ceil(from / 3_600_000)
  const total = count(range.from, range.to)
  const buckets =
    interval === 'none'
      ? [{ at: question.from, ...range }]
      : splitIntoBuckets(range, interval, timezone, week_start).buckets
  const points = buckets.map((bucket) => {
    const [from, to] = [Math.max(bucket.from, range.from), Math.min(bucket.to, range.to)]
    return { at: bucket.at as string, value: count(from, to), complete: true }
  })
  const results = [{ series: 0, breakdown: [], total, points }]
  return { kind: 'series', results, query: question, pending: 0, elapsed_ms: 1 }
}

const choice = fc.oneof(
  fc.record({ range: fc.constantFrom(...PRESETS) }),
  fc
    .tuple(fc.integer({ min: 3, max: 400 }), fc.integer({ min: 1, max: 400 }))
    .map(([start, days]) => ({ from: addDays('2023-01-01', start), to: addDays('2023-01-01', start + days) })),
  fc.tuple(fc.integer({ min: 0, max: 9000 }), fc.integer({ min: 1, max: 2000 })).map(([start, hours]) => ({
    from: Date.parse('2024-01-01T00:00Z') + start * 3_600_000,
    to: Date.parse('2024-01-01T00:00Z') + (start + hours) * 3_600_000,
  })),
)
const compared = fc.record({
  choice,
  interval: fc.constantFrom('hour' as const, 'day' as const, 'week' as const, 'month' as const, 'none' as const),
  timezone: fc.constantFrom(...ZONES),
  week_start: fc.constantFrom('monday' as const, 'sunday' as const),
  now: fc.integer({ min: Date.parse('2023-06-01'), max: Date.parse('2026-12-31') }),
})

t.test('every bucket of both periods is shown once, and columns add up to their totals', async (t) => {
  fc.assert(
    fc.property(compared, ({ choice, interval: wanted, timezone, week_start, now }) => {
      // Thousands of hours would take long, and are no different.
      const isLong = wanted === 'hour' && !fitsInterval(wanted, { ...choice, timezone, week_start }, now)
      const interval = isLong ? 'day' : wanted
      const series = [{ event: 'a' }]
      const question = { kind: 'series', series, interval, timezone, week_start, ...('from' in choice && choice) }
      const display = { compare: true, ...('range' in choice && { range: choice.range }) }
      const moment = { now, first: now - 300 * DAY_MS }
      const current = ask(readQuestion(buildRequest(question, display, moment), now).question as SeriesQuestion)
      const earlier = buildRequestBefore(question, display, moment)
      const range = parseRange(current.query)
      if (!earlier) return t.ok(display.range === 'all' || range.from > now)
      const before = ask(readQuestion(earlier.request, now).question as SeriesQuestion)
      t.ok(parseRange(before.query).to <= range.from, 'the periods do not overlap')
      const aligned = alignBefore(current, before, earlier.unit)
      const listPlaces = (side: 'now' | 'before') =>
        aligned.pairs.map((pair) => pair[side]).filter((place) => place !== null)
      if (range.to > now) {
        const { from, to } = parseRange(before.query)
        const [elapsed, compared] = [now - range.from, to - from]
        t.ok(Math.abs(elapsed - compared) < DAY_SHIFT_MS || earlier.unit === 'month', 'as much as is over')
      }
      t.equal(String(listPlaces('now')), String([...listStarts(current).keys()]))
      t.equal(String(listPlaces('before')), String([...listStarts(before).keys()]))
      const [table] = buildTables(current, aligned)
      if (interval !== 'none') checkSums(t, table)
      if (interval === 'week') {
        const days = Math.round((range.from - parseRange(before.query).from) / DAY_MS)
        t.equal(days % 7, 0, 'whole weeks')
      }
      // Both consist of the same parts of weeks and months.
      if (interval === 'week' || (interval === 'month' && isDate(current.query.from))) {
        t.ok(
          aligned.pairs.every((pair) => pair.now !== null && (pair.before !== null || range.to > now)),
          'no bucket lacks its counterpart',
        )
      }
    }),
    { numRuns: 80 },
  )
})

function checkSums(t: Test, table: AnswerTable | undefined): void {
  const rows = table?.rows.slice(0, -1) ?? []
  const totals = table?.rows.at(-1) ?? []
  for (const column of [2, 3]) {
    const sum = rows.reduce((all, row) => all + Number(row[column]?.value ?? 0), 0)
    t.equal(sum, totals[column]?.value)
  }
  t.ok(
    rows.every(([now, before]) => now?.text || before?.text),
    'each row has a date',
  )
}

t.test('days of months of different lengths are compared by their number', async (t) => {
  const question = { kind: 'series', series: [{ event: 'a' }], interval: 'day' }
  const moment = { now: Date.parse('2024-12-15T12:00Z'), first: null }
  const align = (range: object, display: object) => {
    const current = ask(
      readQuestion(buildRequest({ ...question, ...range }, display, moment), moment.now).question as never,
    )
    const earlier = buildRequestBefore({ ...question, ...range }, { ...display, compare: true }, moment)
    if (!earlier) throw new Error('there is a period before')
    const before = ask(readQuestion(earlier.request, moment.now).question as never)
    const aligned = alignBefore(current, before, earlier.unit)
    const show = (ats: string[], place: number | null) => (place === null ? '' : (ats[place] ?? '').slice(0, 10))
    return aligned.pairs.map((pair) => [show(listStarts(current), pair.now), show(aligned.ats, pair.before)])
  }
  t.strictSame(align({}, { range: 'last_month' }).slice(-2), [
    ['2024-11-30', '2024-10-30'],
    ['', '2024-10-31'],
  ])
  const year = align({ from: '2024-01-01', to: '2025-01-01' }, {})
  t.strictSame(year.slice(58, 61), [
    ['2024-02-28', '2023-02-28'],
    ['2024-02-29', ''],
    ['2024-03-01', '2023-03-01'],
  ])
})
