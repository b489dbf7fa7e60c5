import fc from 'fast-check'
import t from 'tap'
import {
  formatAgo,
  formatBytes,
  formatCompact,
  formatCount,
  formatDuration,
  formatMoment,
  formatNumber,
  formatTick,
} from '../../../src/web/lib/format.js'

t.test('formatNumber and formatTick show enough digits for any magnitude', (t) => {
  t.equal(formatNumber(0.1 + 0.2), '0.3')
  t.equal(formatNumber(1234.567), '1,234.57')
  t.equal(formatNumber(0.004), '0.004')
  t.equal(formatCompact(0.0123), '0.0123')
  t.equal(formatNumber(-0.000_000_002), '-2E-9')
  t.equal(formatNumber(1e15), '1,000,000,000,000,000')
  t.equal(formatNumber(1.5e300), '1.5E300')
  t.equal(formatNumber(0), '0')
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

t.test('formatMoment shows as much of a time as tells it apart', async (t) => {
  const now = new Date(2026, 4, 2, 12).getTime()
  t.match(formatMoment(new Date(2026, 4, 2, 9, 5, 7).getTime(), now), /^9:05:07\sAM$/)
  t.match(formatMoment(new Date(2026, 4, 1, 9, 5).getTime(), now), /^May 1, 9:05\sAM$/)
  t.equal(formatMoment(new Date(2024, 4, 1).getTime(), now), 'May 1, 2024')
})
