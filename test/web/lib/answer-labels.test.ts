import t from 'tap'
import { labelBreakdowns } from '../../../src/contract/labels.js'
import { formatBuckets, formatPeriod } from '../../../src/web/lib/answer-labels.js'
import { buildTables, type DrawnAnswer, toCsvRows } from '../../../src/web/lib/answer-table.js'

t.test('formatBuckets distinguishes the hour that is repeated when clocks go back', (t) => {
  const ats = ['01:00:00+02:00', '02:00:00+02:00', '02:00:00+01:00', '03:00:00+01:00'].map((at) => `2026-10-25T${at}`)
  const texts = formatBuckets(ats, {
    from: '2026-10-25',
    to: '2026-10-26',
    timezone: 'Europe/Berlin',
    interval: 'hour',
  })
  t.match(texts[1], /\(UTC\+02:00\)$/)
  t.match(texts[2], /\(UTC\+01:00\)$/)
  t.notMatch(texts[0], /UTC/)
  t.equal(new Set(texts).size, 4)
  t.end()
})

t.test('formatBuckets says which days of a week or month count', async (t) => {
  const period = { from: '2026-10-01', to: '2026-10-08', timezone: 'UTC' }
  t.strictSame(
    formatBuckets(['2026-09-28T00:00:00+00:00', '2026-10-05T00:00:00+00:00'], { ...period, interval: 'week' }),
    ['Oct 1 – 4, 2026 (4 of 7 days)', 'Oct 5 – 7, 2026 (3 of 7 days)'],
  )
  t.strictSame(formatBuckets(['2026-10-01T00:00:00+00:00'], { ...period, interval: 'month' }), [
    'Oct 1 – 7, 2026 (7 of 31 days)',
  ])
  const whole = { from: '2026-09-28', to: '2026-11-01', timezone: 'UTC' }
  t.strictSame(formatBuckets(['2026-09-28T00:00:00+00:00'], { ...whole, interval: 'week' }), ['Week of Sep 28, 2026'])
  t.strictSame(formatBuckets(['2026-10-01T00:00:00+00:00'], { ...whole, interval: 'month' }), ['Oct 2026'])
})

t.test('formatPeriod names the first and the last day', async (t) => {
  t.equal(formatPeriod({ from: '2026-10-01', to: '2026-11-01', timezone: 'UTC' }), 'Oct 1 – 31, 2026')
  t.equal(formatPeriod({ from: '2026-10-01', to: '2026-10-02', timezone: 'UTC' }), 'Oct 1, 2026')
  const night = Date.parse('2026-10-01T16:00Z')
  t.equal(formatPeriod({ from: night, to: night + 1, timezone: 'Asia/Tokyo' }), 'Oct 2, 2026, 1:00 AM')
})

t.test('times of day are part of a period, and of the buckets in which it begins and ends', async (t) => {
  const period = { from: '2026-11-25', to: '2026-11-26T14:30', timezone: 'UTC' }
  t.equal(formatPeriod(period), 'Nov 25 – 26, 2026, until 2:30 PM')
  t.equal(formatPeriod({ ...period, from: '2026-11-26' }), 'Nov 26, 2026, until 2:30 PM')
  t.equal(
    formatPeriod({ ...period, from: '2026-11-25T10:00:05', to: '2026-11-27' }),
    'Nov 25 – 26, 2026, from 10:00:05 AM',
  )
  const both = { ...period, from: Date.parse('2026-11-25T10:00Z') }
  t.equal(formatPeriod(both), 'Nov 25, 2026, 10:00 AM – Nov 26, 2026, 2:30 PM')
  const at = (day: number, time = '00:00') => `2026-11-${day}T${time}:00+00:00`
  t.strictSame(formatBuckets([at(25), at(26)], { ...both, interval: 'day' }), [
    'Wed, Nov 25, 2026, from 10:00 AM',
    'Thu, Nov 26, 2026, until 2:30 PM',
  ])
  t.strictSame(formatBuckets([at(25, '10:00'), at(26, '14:00')], { ...both, interval: 'hour' }), [
    'Nov 25, 2026, 10:00 AM',
    'Nov 26, 2026, 2:00 PM, until 2:30 PM',
  ])
  t.strictSame(formatBuckets([at(23)], { ...period, interval: 'week' }), [
    'Nov 25 – 26, 2026 (2 of 7 days), until 2:30 PM',
  ])
})

t.test('buildTables leaves out periods that have not begun, instead of showing 0', async (t) => {
  const now = Date.now()
  const [today = '', yesterday = '', tomorrow = ''] = [0, -1, 1].map((days) =>
    new Date(now + days * 86_400_000).toISOString().slice(0, 10),
  )
  const cell = (interval: number, users: number, complete: boolean) => ({ interval, users, complete })
  const retention = {
    kind: 'retention',
    query: { unit: 'day', timezone: 'UTC' },
    results: [
      { cohort: yesterday, size: 3, cells: [cell(0, 3, true), cell(1, 0, false)] },
      { cohort: today, size: 2, cells: [cell(0, 2, false), cell(1, 0, false)] },
    ],
    averages: [0, 1].map((interval) => ({ interval, share: null })),
  }
  const rows = buildTables(retention as unknown as DrawnAnswer).flatMap(toCsvRows)
  t.strictSame(rows.slice(1, 3), [
    [yesterday, 3, 3, 0],
    [today, 2, 2, null],
  ])
  const at = (date: string) => `${date}T00:00:00+00:00`
  const points = [today, tomorrow].map((date) => ({ at: at(date), value: 0, complete: false }))
  const series = {
    kind: 'series',
    query: { series: [{ event: 'a', metric: 'events' }], breakdown: [], interval: 'day', timezone: 'UTC' },
    results: [{ series: 0, breakdown: [], total: 0, points }],
  }
  const days = buildTables(series as unknown as DrawnAnswer).flatMap(toCsvRows)
  t.strictSame(days.slice(1), [
    [at(today), 0],
    [at(tomorrow), null],
    ['Total', 0],
  ])
})

t.test('values that look alike have different labels', async (t) => {
  const values = [5, '5', 'a', null, '(not set)', '', '(empty)', true, 'true', '7', 'Other']
  const lines = [...values.map((value) => [value]), ['$other']]
  const expected = ['5', '"5"', 'a', '(not set)', '"(not set)"', '""', '"(empty)"', 'true', '"true"', '7', '"Other"']
  t.strictSame(labelBreakdowns(lines), [...expected, 'Other'])
  t.strictSame(
    labelBreakdowns([
      [5, 'x'],
      ['5', 'y'],
    ]),
    ['5, x', '"5", y'],
  )
  t.strictSame(labelBreakdowns([['5'], [''], ['Other'], []]), ['5', '(empty)', 'Other', ''])
  const query = { breakdown: ['properties.plan'], series: [{ event: 'a', metric: 'events' }], interval: 'none' }
  const results = [5, '5'].map((value) => ({ series: 0, breakdown: [value], total: 1, points: [] }))
  const [table] = buildTables({ kind: 'series', query, results } as unknown as DrawnAnswer)
  t.match(table?.rows, [
    [{}, { text: '5' }, {}],
    [{}, { text: '"5"' }, {}],
  ])
  t.end()
})
