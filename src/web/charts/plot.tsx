import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { useLatest } from '../hooks/use-latest.js'
import { drillIntoLine, findLineBefore } from '../lib/answer-table.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { type Colors, resolveColors } from './colors.js'
import { Legend } from './legend.js'
import { DrillDownContext } from './number-button.js'
import * as styles from './plot.module.css'
import { buildPlotData, findPartAt, type PlotData, type PlotLine } from './plot-data.js'
import { buildPlotOptions, buildPlotSeries, type PlotSeries, type Shape } from './plot-options.js'
import { Tooltip } from './tooltip.js'
import type { TotalsProps } from './totals.js'

export interface PlotProps extends TotalsProps {
  shape: Shape
}

/** Further lines are hidden until the user clicks them in the legend. */
const MAX_LINES = 20

/** The bucket under the pointer, and its distance from the left edge of the chart in px. */
interface Pointed {
  index: number
  left: number
}

/** A chart over time with lines, areas or bars. */
export function Plot({ answer, before, isMoney, shape }: PlotProps) {
  const onDrillDown = useContext(DrillDownContext)
  const data = useMemo(() => buildPlotData(answer, before, Date.now()), [answer, before])
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
    const bucket = data.buckets[index]
    const place = isBefore ? bucket?.before : bucket?.now
    const of = isBefore ? before : answer
    const found = isBefore ? before && findLineBefore(before, line.index) : answer.results[line.index]
    const at = place == null ? undefined : found?.points[place]?.at
    const drillDown = of && found && at !== undefined && drillIntoLine(of, found, at)
    if (!drillDown || !onDrillDown) return
    onDrillDown(drillDown, `${escapeInvisible(line.name)}, ${isBefore ? bucket?.labelBefore : bucket?.label}`)
  }
  useUplot(box, data, lines, shape, setPointed, open)
  return (
    <figure class={styles.plot}>
      <div
        ref={box}
        class={onDrillDown ? `${styles.canvas} ${styles.clickable}` : styles.canvas}
        role="img"
        aria-label={`Chart of ${data.lines.map(({ name }) => escapeInvisible(name)).join(', ')}. A table of its numbers follows.`}
      />
      {pointed && (
        <Tooltip
          data={data}
          lines={lines}
          isMoney={isMoney}
          index={pointed.index}
          left={pointed.left}
          width={box.current?.clientWidth ?? 0}
        />
      )}
      {(data.lines.length > 1 || before) && (
        <Legend lines={data.lines} shown={lines} onToggle={toggle} before={before} />
      )}
    </figure>
  )
}

/** The line under the pointer. */
interface Hit {
  line: PlotLine
  /** whether it is the line of the previous period */
  isBefore: boolean
}

type Open = (index: number, hit: Hit) => void

/** Redraws the chart when its data, its width or the colour scheme changes. */
function useUplot(
  box: { current: HTMLDivElement | null },
  data: PlotData,
  lines: PlotLine[],
  shape: Shape,
  onPoint: (pointed: Pointed | null) => void,
  open: Open,
): void {
  // Null until the colour scheme changes.
  const [changed, setChanged] = useState<Colors | null>(null)
  const latest = useLatest(open)
  useEffect(() => {
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const update = () => box.current && setChanged(resolveColors(box.current))
    scheme.addEventListener('change', update)
    return () => scheme.removeEventListener('change', update)
  }, [box])
  useEffect(() => {
    const element = box.current
    if (!element) return
    const size = () => ({ width: Math.max(200, element.clientWidth), height: Math.max(180, element.clientHeight) })
    const colors = changed ?? resolveColors(element)
    const parts = buildPlotSeries(data, lines, shape, colors)
    const { width, height } = size()
    const options = buildPlotOptions(data, shape, colors, width, height)
    options.series = [{}, ...parts.series]
    options.hooks = {
      setCursor: [
        ({ cursor: { idx, left } }) => onPoint(idx == null || left == null || left < 0 ? null : toPointed(idx, left)),
      ],
      ready: [
        (plot) => {
          plot.over.addEventListener('click', () => {
            const { idx } = plot.cursor
            const hit = idx != null && findNearestLine(plot, parts, lines, shape, idx)
            if (hit) latest.current(idx, hit)
          })
        },
      ],
    }
    const plot = new uPlot(options, [data.buckets.map((_, i) => i), ...parts.values], element)
    const toPointed = (index: number, left: number) => ({ index, left: left + plot.over.offsetLeft })
    const observer = new ResizeObserver(() => plot.setSize(size()))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
      onPoint(null)
    }
  }, [box, data, lines, shape, changed, onPoint, latest])
}

/**
 * Finds the line at the pointer: the nearest one, or in a stack the part under the pointer. Undefined if there is none.
 */
function findNearestLine(
  plot: uPlot,
  { tops, topsBefore }: PlotSeries,
  lines: PlotLine[],
  shape: Shape,
  index: number,
): Hit | undefined {
  const { left = 0, top = 0 } = plot.cursor
  if (shape !== 'line') {
    const isBefore = topsBefore.length > 0 && left < plot.valToPos(index, 'x')
    const parts = (isBefore ? topsBefore : tops).map((values) => values[index] ?? null)
    const line = lines[findPartAt(parts, plot.posToVal(top, 'y'))]
    return line && { line, isBefore }
  }
  const hits = lines.flatMap((line) => [
    { line, isBefore: false, value: line.values[index] },
    { line, isBefore: true, value: line.before?.[index] },
  ])
  const measureDistance = (value: number | null | undefined) => Math.abs(plot.valToPos(value ?? 0, 'y') - top)
  return hits
    .filter(({ value }) => value != null)
    .sort((one, two) => measureDistance(one.value) - measureDistance(two.value))[0]
}
