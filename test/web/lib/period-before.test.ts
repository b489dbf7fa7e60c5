import t from 'tap'
import type { AnswerTo, Metric } from '../../../src/contract/questions.js'
import { alignBefore, chooseLimitBefore } from '../../../src/web/lib/period-before.js'

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
  alignBefore(now, before).results.map((line) => (line === null || line === 'unknown' ? line : line.total))

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
  t.match(alignBefore(now, answer({ c: 9, a: 4 })).results[1], { breakdown: ['c'], isSum: undefined })
  t.match(alignBefore(now, answer({ c: 9, a: 4, d: 1 })).results[1], {
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
