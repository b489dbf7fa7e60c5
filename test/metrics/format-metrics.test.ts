import t from 'tap'
import { Histogram } from '../../src/lib/histogram.js'
import { formatMetrics } from '../../src/metrics/format-metrics.js'
import { byLabel, counter, gauge, histogram } from '../../src/metrics/metric.js'

t.test('buckets are cumulative, and the last one holds every value', async (t) => {
  const seconds = new Histogram([0.1, 1])
  for (const value of [0.05, 0.5, 0.5, 7]) seconds.observe(value)
  t.equal(
    formatMetrics([histogram('d', 'Duration.', byLabel('table', { events: seconds }))]),
    [
      '# HELP d Duration.',
      '# TYPE d histogram',
      'd_bucket{table="events",le="0.1"} 1',
      'd_bucket{table="events",le="1"} 3',
      'd_bucket{table="events",le="+Inf"} 4',
      'd_sum{table="events"} 8.05',
      'd_count{table="events"} 4',
      '',
    ].join('\n'),
  )
})

t.test('an unknown value has no line, and a zero has one', async (t) => {
  t.equal(formatMetrics([gauge('g', 'G.', null)]), '# HELP g G.\n# TYPE g gauge\n')
  t.equal(formatMetrics([counter('c_total', 'C.', 0)]), '# HELP c_total C.\n# TYPE c_total counter\nc_total 0\n')
})

t.test('quotes, backslashes and line breaks are escaped', async (t) => {
  const [, , line] = formatMetrics([gauge('g', 'a\\b\nc', [[{ disk: 'a"b\\c\nd' }, 1e21]])]).split('\n')
  t.equal(line, 'g{disk="a\\"b\\\\c\\nd"} 1e+21')
})
