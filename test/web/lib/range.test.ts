import t from 'tap'
import type { Interval } from '../../../src/contract/questions.js'
import {
  changeBound,
  chooseInterval,
  findInstant,
  findRangeBefore,
  fitsInterval,
  formatBounds,
  hasBegun,
  isDate,
  type Preset,
  type Range,
  type RangeChoice,
  resolveRange,
} from '../../../src/web/lib/range.js'

const resolve = (range: Preset, now: string, more: Partial<RangeChoice> = {}, first: number | null = null) => {
  const { from, to } = resolveRange(
    { timezone: 'UTC', week_start: 'monday', range, ...more },
    { now: Date.parse(now), first },
  )
  return `${from} ${to}`
}
const LATER = '2030-01-01T00:00Z'
const findBefore = (range: Range, interval: Interval = 'day', preset?: Preset, timezone = 'UTC', now = LATER) => {
  const before = findRangeBefore(range, { timezone, interval, preset, now: Date.parse(now) })
  return before && `${before.from} ${before.to}`
}

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

t.test('findInstant finds the first instant of a date, also when clocks change', async (t) => {
  const find = (bound: string | number, zone: string) => {
    const found = findInstant(bound, zone)
    return found === null ? null : new Date(found).toISOString()
  }
  t.equal(find('2026-05-01', 'UTC'), '2026-05-01T00:00:00.000Z')
  t.equal(find('2026-05-01', 'Europe/Vienna'), '2026-04-30T22:00:00.000Z')
  t.equal(find('2026-12-01', 'America/New_York'), '2026-12-01T05:00:00.000Z')
  t.equal(find('2026-05-01', 'Pacific/Kiritimati'), '2026-04-30T10:00:00.000Z')
  // The day began at one o'clock there.
  t.equal(find('2026-04-24', 'Africa/Cairo'), '2026-04-23T22:00:00.000Z')
  t.equal(find('2026-05-01T12:30', 'Europe/Vienna'), '2026-05-01T10:30:00.000Z')
  t.equal(find('2026-05-01T12:30Z', 'Europe/Vienna'), '2026-05-01T12:30:00.000Z')
  // Clocks show it twice, or skip it.
  t.equal(find('2026-10-25T02:30', 'Europe/Vienna'), '2026-10-25T00:30:00.000Z')
  t.equal(find('2026-10-25T02:30+01:00', 'Europe/Vienna'), '2026-10-25T01:30:00.000Z')
  t.equal(find(Date.parse('2026-10-25T00:30Z'), 'Europe/Vienna'), '2026-10-25T00:30:00.000Z')
  t.equal(find('2026-11-01', 'America/Havana'), '2026-11-01T04:00:00.000Z')
  t.equal(find('2026-03-29T02:30', 'Europe/Vienna'), '2026-03-29T01:30:00.000Z')
  t.equal(find('2026-03-29T03:30', 'Europe/Vienna'), '2026-03-29T01:30:00.000Z')
  t.equal(find(1_777_593_600_000, 'Asia/Tokyo'), '2026-05-01T00:00:00.000Z')
  t.equal(find('never', 'UTC'), null)
})

t.test('isDate rejects impossible dates', async (t) => {
  for (const date of ['2026-05-01', '2024-02-29']) t.ok(isDate(date), date)
  for (const text of ['2026-13-01', '2026-00-10', '2026-01-32', '2026-02-30', '2026-5-1', 5])
    t.notOk(isDate(text), String(text))
})

t.test('resolveRange ends relative ranges with today, and calendar ones before today with their unit', async (t) => {
  const now = '2026-11-26T12:00Z'
  t.equal(resolve('today', now), '2026-11-26 2026-11-27')
  t.equal(resolve('yesterday', now), '2026-11-25 2026-11-26')
  t.equal(resolve('this_week', now), '2026-11-23 2026-11-27')
  t.equal(resolve('this_week', now, { week_start: 'sunday' }), '2026-11-22 2026-11-27')
  t.equal(resolve('last_week', now), '2026-11-16 2026-11-23')
  t.equal(resolve('last_week', '2026-11-22T12:00Z', { week_start: 'sunday' }), '2026-11-15 2026-11-22')
  t.equal(resolve('this_month', now), '2026-11-01 2026-11-27')
  t.equal(resolve('last_month', now), '2026-10-01 2026-11-01')
  t.equal(resolve('last_month', '2026-01-31T12:00Z'), '2025-12-01 2026-01-01')
  t.equal(resolve('7d', now), '2026-11-20 2026-11-27')
  t.equal(resolve('30d', now), '2026-10-28 2026-11-27')
  t.equal(resolve('this_year', now), '2026-01-01 2026-11-27')
  t.equal(resolve('12m', now), '2025-11-27 2026-11-27')
  t.equal(resolve('12m', '2025-02-28T12:00Z'), '2024-03-01 2025-03-01')
  t.equal(resolve('today', '2026-11-26T23:30Z', { timezone: 'Asia/Tokyo' }), '2026-11-27 2026-11-28')
})

t.test('resolveRange begins “all time” with the first event', async (t) => {
  const first = Date.parse('2024-02-29T23:30Z')
  t.equal(resolve('all', '2026-11-26T12:00Z', {}, first), '2024-02-29 2026-11-27')
  t.equal(resolve('all', '2026-11-26T12:00Z', { timezone: 'Asia/Tokyo' }, first), '2024-03-01 2026-11-27')
  t.equal(resolve('all', '2026-11-26T12:00Z'), '2026-11-26 2026-11-27', 'there is none')
})

t.test('findRangeBefore keeps the shape of a range', async (t) => {
  t.equal(findBefore({ from: '2026-05-03', to: '2026-05-05' }), '2026-05-01 2026-05-03')
  t.equal(findBefore({ from: '2026-05-03', to: '2026-05-05' }, 'week'), '2026-04-26 2026-04-28')
  t.equal(findBefore({ from: '2026-10-28', to: '2026-11-27' }, 'week'), '2026-09-23 2026-10-23')
  t.equal(findBefore({ from: '2026-10-28', to: '2026-11-27' }, 'month'), '2026-09-28 2026-10-27')
  t.equal(findBefore({ from: '2026-10-01', to: '2026-11-01' }), '2026-09-01 2026-10-01', 'a whole month')
  t.equal(findBefore({ from: '2024-01-01', to: '2025-01-01' }), '2023-01-01 2024-01-01', 'a leap year')
  t.equal(findBefore({ from: '2026-11-01', to: '2026-11-27' }, 'day', 'this_month'), '2026-10-01 2026-10-27')
  t.equal(findBefore({ from: '2026-03-01', to: '2026-03-31' }, 'day', 'this_month'), '2026-02-01 2026-03-01')
  t.equal(findBefore({ from: '2026-02-01', to: '2026-03-01' }, 'day', 'this_month'), '2026-01-01 2026-02-01')
  t.equal(findBefore({ from: '2026-11-23', to: '2026-11-27' }, 'day', 'this_week'), '2026-11-16 2026-11-20')
  t.equal(findBefore({ from: '2024-01-01', to: '2024-03-01' }, 'day', 'this_year'), '2023-01-01 2023-03-01')
})

t.test('findRangeBefore is whole weeks earlier by week, whatever the range', async (t) => {
  t.equal(findBefore({ from: '2026-05-01', to: '2026-05-04' }, 'week', 'this_month'), '2026-04-03 2026-04-06')
  t.equal(findBefore({ from: '2026-05-01', to: '2026-06-01' }, 'week', 'last_month'), '2026-03-27 2026-04-27')
  t.equal(findBefore({ from: '2026-05-01', to: '2026-06-01' }, 'week'), '2026-03-27 2026-04-27', 'a whole month')
  t.equal(findBefore({ from: '2026-01-01', to: '2026-05-04' }, 'week', 'this_year'), '2025-01-02 2025-05-05')
  t.equal(findBefore({ from: '2025-05-04', to: '2026-05-04' }, 'week', '12m'), '2024-04-28 2025-04-28', '53 weeks')
  t.equal(findBefore({ from: '2026-05-01', to: '2026-05-02' }, 'week', 'today'), '2026-04-24 2026-04-25')
  t.equal(findBefore({ from: '2026-04-30', to: '2026-05-03' }, 'month', 'this_week'), '2026-03-30 2026-04-03')
})

t.test('findRangeBefore moves times by whole days of their time zone', async (t) => {
  const from = Date.parse('2026-10-25T10:00+01:00')
  const to = Date.parse('2026-10-25T16:00+01:00')
  // Clocks go back on 25 October.
  t.equal(findBefore({ from, to }, 'hour', undefined, 'Europe/Berlin'), '2026-10-24T10:00 2026-10-24T16:00')
  t.equal(findBefore({ from: '2026-05-01T10:00', to: '2026-05-03T09:00' }), '2026-04-29T10:00 2026-05-01T09:00')
})

t.test('findRangeBefore compares what is over with as much of the previous period', async (t) => {
  const find = (range: Preset, now: string, interval: Interval = 'day', timezone = 'UTC') => {
    const choice = { timezone, week_start: 'monday', range } as const
    return findBefore(resolveRange(choice, { now: Date.parse(now), first: null }), interval, range, timezone, now)
  }
  const now = '2026-11-26T14:29:30Z'
  t.equal(find('today', now, 'hour'), '2026-11-25 2026-11-25T14:30')
  t.equal(find('yesterday', now, 'hour'), '2026-11-24 2026-11-25', 'it is over')
  t.equal(find('this_week', now), '2026-11-16 2026-11-19T14:30')
  t.equal(find('this_month', now), '2026-10-01 2026-10-26T14:30')
  t.equal(find('last_month', now), '2026-09-01 2026-10-01', 'it is over')
  t.equal(find('7d', now), '2026-11-13 2026-11-19T14:30')
  t.equal(find('30d', now, 'month'), '2026-09-28 2026-10-26T14:30')
  t.equal(find('this_year', now), '2025-01-01 2025-11-26T14:30')
  t.equal(find('12m', now, 'month'), '2024-11-27 2025-11-26T14:30')
  const fixed = (from: string, to: string, at = now) => findBefore({ from, to }, 'day', undefined, 'UTC', at)
  t.equal(fixed('2026-11-01', '2026-12-01'), '2026-10-01 2026-10-26T14:30')
  t.equal(fixed('2026-11-01', '2026-11-26'), '2026-10-07 2026-11-01', 'it is over')
  t.equal(fixed('2026-11-26T10:00', '2026-11-26T12:00'), '2026-11-25T10:00 2026-11-25T12:00', 'it is over')
  t.equal(fixed('2026-11-26T15:00', '2026-11-28'), null, 'it has not begun')
  t.equal(fixed('2026-11-27', '2026-11-28', '2026-11-27T00:00:00Z'), '2026-11-26 2026-11-26T00:01', 'it begins')
  // A month without the 29th, 30th and 31st is over by then.
  t.equal(find('this_month', '2026-03-28T12:00Z'), '2026-02-01 2026-02-28T12:01')
  for (const day of [29, 30, 31]) t.equal(find('this_month', `2026-03-${day}T12:00Z`), '2026-02-01 2026-03-01')
  t.equal(find('this_month', '2026-02-28T12:00Z'), '2026-01-01 2026-01-28T12:01')
  t.equal(find('this_year', '2028-02-29T12:00Z'), '2027-01-01 2027-03-01')
})

t.test('findRangeBefore compares up to the same time of day, also when clocks change', async (t) => {
  const find = (now: string, timezone = 'Europe/Berlin') => {
    const choice = { timezone, week_start: 'monday', range: 'today' } as const
    return findBefore(resolveRange(choice, { now: Date.parse(now), first: null }), 'hour', 'today', timezone, now)
  }
  t.equal(find('2026-03-29T12:59:00Z'), '2026-03-28 2026-03-28T15:00', 'clocks went forward today')
  t.equal(find('2026-03-30T12:59:00Z'), '2026-03-29 2026-03-29T15:00', 'and yesterday')
  t.equal(find('2026-10-25T13:59:00Z'), '2026-10-24 2026-10-24T15:00', 'they went back today')
  t.equal(find('2026-10-26T13:59:00Z'), '2026-10-25 2026-10-25T15:00', 'and yesterday')
  t.equal(find('2026-11-26T23:59:00Z', 'Asia/Kolkata'), '2026-11-26 2026-11-26T05:30')
})

t.test('findRangeBefore finds none for all time, invalid ranges and times before 1970', async (t) => {
  t.equal(findBefore({ from: '2026-05-03', to: '2026-05-05' }, 'day', 'all'), null)
  t.equal(findBefore({ from: '2026-05-03', to: '2026-13-01' }), null)
  t.equal(findBefore({ from: '2026-05-03', to: '2026-05-03' }), null)
  t.equal(findBefore({ from: '1970-01-02', to: '1970-01-05' }), null)
})

t.test('up to two days are counted by hour, and many years by month', async (t) => {
  const choose = (from: string | number, to: string | number) => chooseInterval({ from, to }, 'Europe/Berlin')
  t.equal(choose('2026-05-01', '2026-05-02'), 'hour')
  t.equal(choose('2026-05-01', '2026-05-03'), 'hour')
  t.equal(choose('2026-05-01', '2026-05-04'), 'day')
  t.equal(choose('2024-01-01', '2025-01-01'), 'day')
  t.equal(choose('2020-01-01', '2026-01-01'), 'month')
  const fits = (interval: Interval, range: Preset) => {
    return fitsInterval(interval, { timezone: 'UTC', week_start: 'monday', range }, Date.parse('2026-11-26T12:00Z'))
  }
  t.ok(
    fits('hour', 'today') && fits('day', '30d') && fits('week', '30d') && fits('none', 'today') && fits('month', 'all'),
  )
  for (const interval of ['day', 'week', 'month'] as const) t.notOk(fits(interval, 'today'), interval)
  t.notOk(fits('hour', '90d') || fits('hour', 'all') || fits('day', 'all'))
})

t.test('formatBounds and changeBound keep times of day', async (t) => {
  const zone = 'Europe/Berlin'
  const format = (from: string | number, to: string | number) => Object.values(formatBounds({ from, to }, zone))
  t.strictSame(format('2026-05-01', '2026-05-03'), ['2026-05-01', '2026-05-02'])
  t.strictSame(format('2026-05-01T10:30', '2026-05-03T09:00:05'), ['2026-05-01 10:30', '2026-05-03 09:00:05'])
  t.strictSame(format(Date.parse('2026-05-01T08:00Z'), '2026-05-02T22:00Z'), ['2026-05-01 10:00', '2026-05-02'])
  const times = { from: '2026-05-01T10:30', to: '2026-05-03T09:00' }
  const change = (bound: 'from' | 'to', typed: string) => changeBound(times, bound, typed, zone)
  t.strictSame(change('from', '2026-05-02'), { from: '2026-05-02', to: times.to })
  t.strictSame(change('from', '2026-05-02 7:30'), null)
  t.strictSame(change('from', '2026-05-02 07:30'), { from: '2026-05-02T07:30', to: times.to })
  t.strictSame(change('from', '2026-05-03 09:00'), { from: '2026-05-03T09:00', to: '2026-05-04' }, 'later than the end')
  t.strictSame(change('to', '2026-05-04'), { from: times.from, to: '2026-05-05' })
  t.strictSame(change('to', '2026-05-04T00:00'), { from: times.from, to: '2026-05-04' })
  t.strictSame(change('to', '2026-05-01 10:00'), { from: '2026-05-01', to: '2026-05-01T10:00' }, 'before the beginning')
  t.strictSame(change('to', '2026-04-01'), { from: '2026-04-01', to: '2026-04-02' })
  for (const typed of ['', '2026-05', '2026-02-30', '2026-05-01 25:00', '2026-05-01 24:00', '2026-05-01T10:00Z']) {
    t.equal(change('to', typed), null, typed)
  }
})
