import fc from 'fast-check'
import t from 'tap'
import { DEFAULT_SETTINGS, NUMBER_FORMATS } from '../../../src/contract/project-settings.js'
import {
  formatAgo,
  formatBytes,
  formatClock,
  formatCompact,
  formatCount,
  formatDate,
  formatDay,
  formatDuration,
  formatMoment,
  formatMoney,
  formatNumber,
  formatShare,
  formatTick,
  formatTime,
} from '../../../src/web/lib/format.js'
import { suggestTimeZones } from '../../../src/web/lib/intl.js'
import { setProjectSettings } from '../../../src/web/lib/project-settings.js'

t.afterEach(() => setProjectSettings(DEFAULT_SETTINGS))

t.test('formatNumber and formatTick show enough digits for any magnitude', (t) => {
  t.equal(formatNumber(0.1 + 0.2), '0.3')
  t.equal(formatNumber(1234.567), '1,234.57')
  t.equal(formatNumber(0.004), '0.004')
  t.equal(formatCompact(0.0123), '0.0123')
  t.equal(formatNumber(-0.000_000_002), '-2E-9')
  t.equal(formatNumber(1e15), '1,000,000,000,000,000')
  t.equal(formatNumber(1.5e300), '1.5E300')
  t.equal(formatNumber(0), '0')
  t.equal(formatNumber(-0), '0')
  for (const [share, text] of [
    [0.004, '0.4%'],
    [0.0004, '0.04%'],
    [0, '0%'],
    [-0, '0%'],
    [0.999, '99.9%'],
    [1999 / 2000, '99.9%'],
    [-1999 / 2000, '-99.9%'],
    [1, '100%'],
    [1.9996, '200%'],
  ] as const) {
    t.equal(formatShare(share), text, 'a small share is not none, and a large one not all')
  }
  // Each tick of an axis has a label of its own.
  const steps = fc.tuple(fc.constantFrom(1, 2, 2.5, 5), fc.integer({ min: -12, max: 20 }))
  fc.assert(
    fc.property(steps, fc.integer({ min: -12, max: 0 }), ([factor, power], first) => {
      const step = Number(`${factor}e${power}`)
      const texts = Array.from({ length: 13 }, (_, i) => formatTick((first + i) * step, step))
      t.equal(new Set(texts).size, 13, `${step}: ${texts}`)
    }),
  )
  t.end()
})

t.test('a number stays on one line with its unit and its noun', async (t) => {
  t.equal(formatCount(1, 'event'), '1\u00a0event')
  t.equal(formatCount(0, 'event'), '0\u00a0events')
  t.equal(formatCount(1234, 'event'), '1,234\u00a0events')
  t.equal(formatCount(2, 'link was', 'links were'), '2\u00a0links were')
  t.equal(formatDuration(3 * 3_600_000 + 5 * 60_000), '3\u00a0h 5\u00a0min')
  t.equal(formatBytes(1_500_000), '1.5\u00a0MB')
  t.equal(formatBytes(0), '0\u00a0bytes')
  t.equal(formatBytes(1), '1\u00a0byte')
  t.equal(formatBytes(1e16), '10,000\u00a0TB')
  t.equal(formatAgo(0, 180_000), '3\u00a0minutes ago')
  t.equal(formatAgo(0, 86_400_000), 'yesterday')
})

t.test('a duration is rounded, not cut off', async (t) => {
  for (const [ms, text] of [
    [0, '0 ms'],
    [999.4, '999 ms'],
    [999.6, '1 s'],
    [1500, '1.5 s'],
    [1999, '2 s'],
    [9949, '9.9 s'],
    [9999, '10 s'],
    [59_400, '59 s'],
    [59_600, '1 min'],
    [90_600, '1 min 31 s'],
    [3_599_600, '1 h'],
    [3_600_000 + 90_000, '1 h 2 min'],
    [86_399_999, '1 d'],
    [2 * 86_400_000 - 1, '2 d'],
  ] as const) {
    t.equal(formatDuration(ms).replaceAll('\u00a0', ' '), text)
  }
  // However long it is, its parts add up to it, apart from less than half of the last unit.
  const lengths = { d: 86_400_000, h: 3_600_000, min: 60_000, s: 1000, ms: 1 }
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e10, noNaN: true }), (ms) => {
      const parts = formatDuration(ms)
        .split(' ')
        .map((part) => part.split('\u00a0'))
      const sum = parts.reduce((all, [count, unit]) => all + Number(count) * lengths[unit as keyof typeof lengths], 0)
      t.ok(Math.abs(sum - ms) <= Math.max(ms * 0.05, 0.5), `${ms}: ${parts}`)
    }),
  )
})

t.test('formatMoment shows only the parts of a time that matter', async (t) => {
  const now = Date.UTC(2026, 4, 2, 12)
  t.match(formatMoment(Date.UTC(2026, 4, 2, 9, 5, 7), now), /^9:05:07\sAM$/)
  t.match(formatMoment(Date.UTC(2026, 4, 1, 9, 5), now), /^May 1, 9:05\sAM$/)
  t.equal(formatMoment(Date.UTC(2024, 4, 1), now), 'May 1, 2024')
})

t.test('numbers have the separators of the project', async (t) => {
  for (const number_format of NUMBER_FORMATS) {
    setProjectSettings({ ...DEFAULT_SETTINGS, number_format })
    t.equal(formatNumber(1234.5), number_format.replace(' ', '\u00a0'))
  }
  setProjectSettings({ ...DEFAULT_SETTINGS, number_format: '1.234,5' })
  t.equal(formatNumber(-1_234_567.25), '-1.234.567,25')
  t.equal(formatNumber(0.0123), '0,0123')
  t.equal(formatCompact(1_250_000), '1,3M')
  t.equal(formatTick(0.25, 0.05), '0,25')
  t.equal(formatShare(0.125), '12,5%')
  t.equal(formatBytes(1_500_000), '1,5\u00a0MB')
  t.equal(formatCount(1234, 'event'), '1.234\u00a0events')
  t.equal(formatAgo(0, 1234 * 86_400_000), '1.234\u00a0days ago')
})

t.test('amounts are in the currency of the project', async (t) => {
  t.equal(formatMoney(1234.5), '1,234.5', 'without one, they are plain numbers')
  setProjectSettings({ ...DEFAULT_SETTINGS, currency: 'EUR' })
  t.equal(formatMoney(1234.5), '€1,234.50')
  t.equal(formatMoney(-0.000_25), '-€0.00025')
  t.equal(formatMoney(0), '€0.00')
  t.equal(formatMoney(1.5e300), '1.5E300')
  setProjectSettings({ ...DEFAULT_SETTINGS, currency: 'JPY', number_format: '1.234,5' })
  t.equal(formatMoney(1234.5), '¥1.235')
})

t.test('times are in the time zone of the project, whatever that of the browser', async (t) => {
  const night = Date.UTC(2026, 11, 31, 20, 5, 7)
  const zones = [
    ['UTC', 'December 31, 2026', 'Dec 31, 2026', '8:05:07'],
    ['Asia/Tokyo', 'January 1, 2027', 'Jan 1, 2027', '5:05:07'],
  ] as const
  for (const [timezone, day, date, clock] of zones) {
    setProjectSettings({ ...DEFAULT_SETTINGS, timezone })
    t.match(formatDay(night), day)
    t.equal(formatDate(night), date)
    t.match(formatTime(night), `${date}, ${clock}`)
    t.match(formatClock(night), clock)
    t.equal(formatMoment(night, Date.UTC(2027, 0, 1, 10)), timezone === 'UTC' ? date : formatClock(night))
  }
  setProjectSettings({ ...DEFAULT_SETTINGS, timezone: 'Mars/Olympus' })
  t.match(formatTime(night), '8:05:07', 'one that the browser does not know is UTC')
})

t.test('a time zone is found by any of its names', async (t) => {
  const find = (text: string) => suggestTimeZones(text).map(({ value }) => value)
  t.ok(find('').includes('UTC'))
  t.strictSame(find('vienna'), ['Europe/Vienna'])
  // Browsers list Asia/Calcutta, Asia/Saigon and Atlantic/Faeroe instead.
  t.strictSame(find('kolkata'), ['Asia/Kolkata'])
  t.strictSame(find('asia/ho chi minh '), ['Asia/Ho_Chi_Minh'])
  t.strictSame(find('Faroe'), ['Atlantic/Faroe'])
  for (const text of ['Nowhere', 'Asia/Nowhere', '+01:00', 'CST']) t.strictSame(find(text), [], text)
})
