import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import type { AnswerTo } from '../../contract/questions.js'
import { bucketText } from '../lib/answer-labels.js'
import { lineBehind, lineOf } from '../lib/answer-table.js'
import { visible } from '../lib/escape-invisible.js'
import type { AnswerBefore } from '../lib/period-before.js'
import { useLatest } from '../lib/use-latest.js'
import { type Colors, colorsAt } from './colors.js'
import { Legend } from './legend.js'
import type { OnNumber } from './number-button.js'
import { type PlotData, type PlotLine, partAt, plotData } from './plot-data.js'
import { type Plotted, plotOptions, plotted, type Shape } from './plot-options.js'
import { Tip } from './tooltip.js'

export interface PlotProps {
  answer: AnswerTo<'series'>
  before: AnswerBefore | null
  shape: Shape
  onNumber: OnNumber | undefined
}

/** More lines than that are drawn once somebody asks for them. */
const MAX_LINES = 20

/** Where the pointer is: a bucket, and how far from the chart's left side, px. */
interface Pointed {
  index: number
  left: number
}

/** Lines, areas or bars over time. */
export function Plot({ answer, before, shape, onNumber }: PlotProps) {
  const data = useMemo(() => plotData(answer, before, Date.now()), [answer, before])
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set())
  const lines = useMemo(() => {
    return data.lines.filter(({ name, index }) => index < MAX_LINES !== toggled.has(name))
  }, [data, toggled])
  const toggle = (name: string) => {
    const next = new Set(toggled)
    if (!next.delete(name)) next.add(name)
    setToggled(next)
  }
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const box = useRef<HTMLDivElement>(null)
  const open = (index: number, { line, isBefore }: Hit) => {
    const of = isBefore ? before : answer
    const found = isBefore ? before && lineOf(before, line.index) : answer.results[line.index]
    const at = found?.points[index]?.at
    const behind = of && found && at !== undefined && lineBehind(of, found, at)
    if (!behind || !onNumber) return
    const time = isBefore ? `period before, ${bucketText(at, of.query.interval)}` : (data.labels[index] ?? '')
    onNumber(behind, `${visible(line.name)}, ${time}`)
  }
  useCanvas(box, data, lines, shape, setPointed, open)
  return (
    <figure class="plot">
      <div
        ref={box}
        class={onNumber ? 'canvas clickable' : 'canvas'}
        role="img"
        aria-label={`Chart of ${data.lines.map(({ name }) => visible(name)).join(', ')}. A table of its numbers follows.`}
      />
      {pointed && (
        <Tip
          data={data}
          lines={lines}
          index={pointed.index}
          left={pointed.left}
          width={box.current?.clientWidth ?? 0}
        />
      )}
      {(data.lines.length > 1 || before) && (
        <Legend lines={data.lines} shown={lines} onToggle={toggle} hasBefore={before !== null} />
      )}
    </figure>
  )
}

/** A line that the pointer is at. */
interface Hit {
  line: PlotLine
  /** whether it is at its period before */
  isBefore: boolean
}

type Open = (index: number, hit: Hit) => void

/** Draws the chart anew when what it shows, its width or the colours of the page change. */
function useCanvas(
  box: { current: HTMLDivElement | null },
  data: PlotData,
  lines: PlotLine[],
  shape: Shape,
  onPoint: (pointed: Pointed | null) => void,
  open: Open,
): void {
  // Null until they change.
  const [changed, setChanged] = useState<Colors | null>(null)
  const latest = useLatest(open)
  useEffect(() => {
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const update = () => box.current && setChanged(colorsAt(box.current))
    scheme.addEventListener('change', update)
    return () => scheme.removeEventListener('change', update)
  }, [box])
  useEffect(() => {
    const element = box.current
    if (!element) return
    const size = () => ({ width: Math.max(200, element.clientWidth), height: Math.max(180, element.clientHeight) })
    const colors = changed ?? colorsAt(element)
    const parts = plotted(data, lines, shape, colors)
    const { width, height } = size()
    const options = plotOptions(data, shape, colors, width, height)
    options.series = [{}, ...parts.series]
    options.hooks = {
      setCursor: [
        ({ cursor: { idx, left } }) => onPoint(idx == null || left == null || left < 0 ? null : pointedAt(idx, left)),
      ],
      ready: [
        (plot) => {
          plot.over.addEventListener('click', () => {
            const { idx, top = 0 } = plot.cursor
            const hit = idx != null && nearest(plot, parts, lines, shape, idx, top)
            if (hit) latest.current(idx, hit)
          })
        },
      ],
    }
    const plot = new uPlot(options, [data.at.map((_, i) => i), ...parts.values], element)
    const pointedAt = (index: number, left: number) => ({ index, left: left + plot.over.offsetLeft })
    const observer = new ResizeObserver(() => plot.setSize(size()))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
      onPoint(null)
    }
  }, [box, data, lines, shape, changed, onPoint, latest])
}

/** The line at a height of the chart: the nearest, or in a stack the one whose part it is. Undefined if there is none. */
function nearest(
  plot: uPlot,
  { tops }: Plotted,
  lines: PlotLine[],
  shape: Shape,
  index: number,
  top: number,
): Hit | undefined {
  if (shape !== 'line') {
    const line =
      lines[
        partAt(
          tops.map((values) => values[index] ?? null),
          plot.posToVal(top, 'y'),
        )
      ]
    return line && { line, isBefore: false }
  }
  const hits = lines.flatMap((line) => [
    { line, isBefore: false, value: line.values[index] },
    { line, isBefore: true, value: line.before?.[index] },
  ])
  const distanceOf = (value: number | null | undefined) => Math.abs(plot.valToPos(value ?? 0, 'y') - top)
  return hits.filter(({ value }) => value != null).sort((one, two) => distanceOf(one.value) - distanceOf(two.value))[0]
}
