import uPlot from 'uplot'
import { formatTick } from '../lib/format.js'
import type { Colors } from './colors.js'
import {
  listValueSteps,
  type PlotData,
  type PlotLine,
  selectCompletePart,
  selectOpenPart,
  stackLines,
  sumLines,
  type Value,
} from './plot-data.js'

export type Shape = 'line' | 'area' | 'bar'

/** The uPlot series of a chart, and their values. */
export interface PlotSeries {
  series: uPlot.Series[]
  values: Value[][]
  /** the upper end of each visible line by bucket; in a stack, this includes the lines below */
  tops: Value[][]
  /** the same in the previous period; empty if it is not shown as bars */
  topsBefore: Value[][]
}

const OPEN_DASH = [5, 4]

/** Each line has two series: a solid one for complete buckets and a dashed one for those that may change. */
export function buildPlotSeries(data: PlotData, lines: PlotLine[], shape: Shape, colors: Colors): PlotSeries {
  const series: uPlot.Series[] = []
  const values: Value[][] = []
  const add = (line: uPlot.Series, points: Value[]) => {
    series.push({ spanGaps: false, ...line })
    values.push(points)
  }
  const isStacked = shape !== 'line'
  const tops = isStacked ? stackLines(lines.map((line) => line.values)) : lines.map((line) => line.values)
  const topsBefore = shape === 'bar' ? stackLines(listBefore(lines)) : []
  const hasPairs = topsBefore.length > 0
  // The topmost area is drawn first, because lower ones are drawn over it.
  const order = [...lines.keys()]
  if (isStacked) order.reverse()
  if (hasPairs) {
    for (const i of order) add(styleBarBefore(lines[i]?.index ?? 0, colors), topsBefore[i] ?? [])
  } else {
    for (const { stroke, points } of buildLinesBefore(lines, isStacked, colors)) {
      add({ stroke, width: 1.5, points: { show: false } }, points)
    }
  }
  const complete = data.buckets.map((bucket) => bucket.complete)
  for (const i of order) {
    const { index } = lines[i] ?? { index: 0 }
    const top = tops[i] ?? []
    const [over, open] = styleParts(shape, index, colors, hasPairs)
    // The two parts share a point. It belongs to the complete part, which is therefore drawn last.
    add(open, shape === 'bar' ? top.map((value, at) => (complete[at] ? null : value)) : selectOpenPart(top, complete))
    add(over, selectCompletePart(top, complete))
  }
  return { series, values, tops, topsBefore }
}

function styleParts(
  shape: Shape,
  index: number,
  colors: Colors,
  hasPairs: boolean,
): [over: uPlot.Series, open: uPlot.Series] {
  const stroke = colors.stroke(index)
  if (shape === 'line') {
    const line = { stroke, width: 2 }
    return [
      { ...line, points: { size: 6, fill: stroke } },
      { ...line, dash: OPEN_DASH, points: { size: 6 } },
    ]
  }
  const paths = shape === 'bar' && buildBars(hasPairs ? 'right' : 'middle')
  const area = { stroke, width: shape === 'bar' ? 1 : 1.5, points: { show: false }, ...(paths && { paths }) }
  return [
    { ...area, fill: colors.fill(index) },
    { ...area, fill: colors.openFill(index), dash: OPEN_DASH },
  ]
}

/** The bars of the previous period are to the left of the bars that they are compared with. */
function styleBarBefore(index: number, colors: Colors): uPlot.Series {
  const paths = buildBars('left')
  const bar = { stroke: colors.faintStroke(index), fill: colors.openFill(index), width: 1, points: { show: false } }
  return { ...bar, ...(paths && { paths }) }
}

/** @param side of the tick; two bars share the room of one */
function buildBars(side: 'left' | 'middle' | 'right'): uPlot.Series.PathBuilder | undefined {
  if (side === 'middle') return uPlot.paths.bars?.({ size: [0.7, 64], radius: 0.1 })
  return uPlot.paths.bars?.({ size: [0.38, 32], radius: 0.1, align: side === 'left' ? -1 : 1 })
}

/** The values of the lines in the previous period; none if some are unknown, because their sum would be too low. */
function listBefore(lines: PlotLine[]): Value[][] {
  const known = lines.map(({ before }) => before).filter((before) => before !== null)
  return known.length === lines.length ? known : []
}

/** The previous period as faint lines; in a stack, one line for the sum. */
function buildLinesBefore(
  lines: PlotLine[],
  isStacked: boolean,
  colors: Colors,
): { stroke: string; points: Value[] }[] {
  if (isStacked && lines.length > 1) {
    const known = listBefore(lines)
    return known.length > 0 ? [{ stroke: colors.faint, points: sumLines(known) }] : []
  }
  return lines.flatMap(({ before, index }) => (before ? [{ stroke: colors.faintStroke(index), points: before }] : []))
}

/** Allowed distances between ticks; ticks are at whole buckets. */
const STEPS = [1, 2, 3, 4, 5, 6, 7, 10, 12, 14, 20, 24, 28, 30, 48, 50, 60, 90, 100, 200, 365, 500, 1000, 2000, 5000]
const FONT = '12px system-ui, sans-serif'

/** Axes, sizes and the cursor. */
export function buildPlotOptions(
  data: PlotData,
  shape: Shape,
  colors: Colors,
  width: number,
  height: number,
): uPlot.Options {
  const axis = { stroke: colors.faint, font: FONT, ticks: { show: false } }
  const last = data.buckets.length - 1
  const ticks = data.buckets.map(({ tick }) => tick)
  const steps = listValueSteps(data.lines)
  const margin = shape === 'bar' ? 0.5 : last === 0 ? 0.5 : 0
  return {
    width,
    height,
    // The last label may extend beyond the chart by half its width.
    padding: [12, estimateRightPadding(ticks), 0, 0],
    series: [],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => [-margin, last + margin] },
      y: { range: (_, low, high) => computeYRange(low, high) },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        incrs: STEPS,
        size: 30,
        space: 64,
        values: (_, splits) => splits.map((at) => ticks[at] ?? ''),
      },
      {
        ...axis,
        grid: { stroke: colors.line, width: 1 },
        ...(steps && { incrs: steps }),
        size: 52,
        values: (_, splits, __, ___, step) => splits.map((at) => formatTick(at, step)),
      },
    ],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 }, focus: { prox: -1 } },
  }
}

/** Space to the right in px, assuming 6 px per character. */
function estimateRightPadding(ticks: string[]): number {
  return Math.max(16, 3.5 * Math.max(0, ...ticks.map(({ length }) => length)))
}

/** The axis includes 0, so that heights are comparable. */
function computeYRange(low: number | null, high: number | null): [number, number] {
  const top = Math.max(0, high ?? 0)
  const bottom = Math.min(0, low ?? 0)
  return top === 0 && bottom === 0 ? [0, 1] : [bottom * 1.06, top * 1.06]
}
