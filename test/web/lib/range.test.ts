import t from 'tap'
import { findRangeBefore, hasBegun, isDate } from '../../../src/web/lib/range.js'

t.test('hasBegun uses the time zone of the question', (t) => {
  const now = Date.parse('2026-03-31T22:30:00Z')
  const begun = (unit: 'day' | 'week' | 'month', timezone: string, cohort: string, interval: number) =>
    hasBegun({ unit, timezone } as never, cohort, interval, now)
  t.ok(begun('day', 'Europe/Berlin', '2026-03-31', 1))
  t.notOk(begun('day', 'UTC', '2026-03-31', 1))
  t.ok(begun('week', 'UTC', '2026-03-23', 1))
  t.notOk(begun('month', 'UTC', '2026-03-01', 1))
  t.end()
})

t.test('isDate rejects impossible dates', async (t) => {
  for (const date of ['2026-05-01', '2024-02-29']) t.ok(isDate(date), date)
  for (const text of ['2026-13-01', '2026-00-10', '2026-01-32', '2026-5-1', 5]) t.notOk(isDate(text), String(text))
  t.strictSame(findRangeBefore({ from: '2026-05-03', to: '2026-05-05' }), { from: '2026-05-01', to: '2026-05-03' })
  t.equal(findRangeBefore({ from: '2026-05-03', to: '2026-13-01' }), null)
})
