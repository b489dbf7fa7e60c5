import t from 'tap'
import { formatBuckets, formatPeriod } from '../../../src/web/lib/answer-labels.js'

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
  t.equal(formatPeriod({ from: night, to: night + 1, timezone: 'Asia/Tokyo' }), 'Oct 2, 2026')
})
