import t from 'tap'
import { buildPlotSeries } from '../../../src/web/charts/plot-options.js'

t.test('buildPlotSeries draws the complete part over the open one, which shares its last point', async (t) => {
  const data = { buckets: [true, true, false].map((complete) => ({ complete })), lines: [] }
  const lines = [{ name: 'a', index: 0, values: [1, 2, 3], before: null }]
  const color = () => 'black'
  const colors = { stroke: color, fill: color, openFill: color, faintStroke: color, faint: 'grey', line: 'grey' }
  const { series, values } = buildPlotSeries(data as never, lines, 'line', colors as never)
  t.strictSame(values, [
    [null, 2, 3],
    [1, 2, null],
  ])
  t.ok(series[0]?.dash)
  t.notOk(series[1]?.dash)
})
