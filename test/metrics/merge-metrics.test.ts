import t from 'tap'
import { formatMetrics } from '../../src/metrics/format-metrics.js'
import { mergeMetrics } from '../../src/metrics/merge-metrics.js'
import { counter, gauge } from '../../src/metrics/metric.js'

t.test('metrics of several processes share one heading and are told apart by a label', async (t) => {
  const one = [counter('a_total', 'First.', 1), gauge('b', 'Second.', [[{ x: '}{ ,' }, 2]])]
  const two = [gauge('b', 'Second.', [[{ x: 'y' }, 3]]), counter('a_total', 'First.', 4)]
  const merged = mergeMetrics([
    ['writer', one],
    ['worker-1', two],
  ])
  t.equal(
    formatMetrics(merged),
    [
      '# HELP a_total First.',
      '# TYPE a_total counter',
      'a_total{process="writer"} 1',
      'a_total{process="worker-1"} 4',
      '# HELP b Second.',
      '# TYPE b gauge',
      'b{x="}{ ,",process="writer"} 2',
      'b{x="y",process="worker-1"} 3',
      '',
    ].join('\n'),
  )
  t.equal(one[0]?.samples.length, 1, 'the metrics of a process stay as they were')
})
