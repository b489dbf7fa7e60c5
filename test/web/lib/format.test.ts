import fc from 'fast-check'
import t from 'tap'
import { formatCompact, formatNumber, formatTick } from '../../../src/web/lib/format.js'

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
