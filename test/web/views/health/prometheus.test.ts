import fc from 'fast-check'
import t from 'tap'
import { formatMetrics } from '../../../../src/metrics/format-metrics.js'
import {
  findMax,
  findMin,
  listLabelValues,
  parseMetrics,
  sumMaxima,
  sumSamples,
} from '../../../../src/web/views/health/prometheus.js'
import { codePoint } from '../../../fuzz/texts.js'

t.test('parseMetrics is the inverse of formatMetrics', async (t) => {
  const labels = fc.dictionary(
    fc.stringMatching(/^[a-z][a-z0-9_]{0,5}$/),
    fc.string({
      unit: fc.oneof(
        fc.string({ unit: codePoint, minLength: 1, maxLength: 1 }),
        fc.constantFrom(...'\r\n\\"{}, =\u2028'),
      ),
    }),
    {
      maxKeys: 3,
    },
  )
  const value = fc.oneof(fc.double({ noNaN: true }), fc.nat())
  fc.assert(
    fc.property(fc.array(fc.record({ labels, value })), (readings) => {
      const samples = readings.map((reading) => ({ suffix: '', ...reading }))
      const text = formatMetrics([{ name: 'a_metric', help: 'with\nlines \\ and {a="b"} 1', type: 'gauge', samples }])
      const read = parseMetrics(text)
      if (read.length !== readings.length) throw new Error(`${read.length} samples of ${readings.length}`)
      for (const [i, { labels, value }] of readings.entries()) {
        const found = read[i]
        // -0 is formatted as 0.
        if (found?.value !== value) throw new Error(`${found?.value} is not ${value}`)
        t.strictSame({ ...found.labels }, { ...labels })
      }
    }),
    { numRuns: 50 },
  )
})

t.test('parseMetrics ignores comments, empty lines and timestamps', async (t) => {
  t.strictSame(parseMetrics('# HELP a b\n\na 1 1700000000000\nb{} NaN\nnonsense\n'), [
    { name: 'a', labels: {}, value: 1 },
    { name: 'b', labels: {}, value: Number.NaN },
  ])
})

t.test('samples are aggregated by sum, minimum and maximum', async (t) => {
  const samples = parseMetrics('a{p="1",lane="0"} 1\na{p="2",lane="0"} 2\na{p="1",lane="1"} 4\n')
  t.equal(sumSamples(samples, 'a'), 7)
  t.equal(sumSamples(samples, 'a', { p: '1' }), 5)
  t.equal(sumSamples(samples, 'b'), 0)
  t.equal(findMax(samples, 'a'), 4)
  t.equal(findMin(samples, 'a', { p: '2' }), 2)
  t.equal(findMin(samples, 'b'), null)
  t.equal(sumMaxima(samples, 'a', 'lane'), 6)
  t.strictSame(listLabelValues(samples, 'a', 'lane'), ['0', '1'])
})
