import type { ComponentType } from 'preact'
import { useMemo } from 'preact/hooks'
import { type DrawnAnswer, tablesOf } from '../lib/answer-table.js'
import type { AnswerBefore } from '../lib/period-before.js'
import { type Display, type Drawing, drawingOf } from '../lib/question.js'
import { useLoaded } from '../lib/use-loaded.js'
import { Loading, PartMissing } from '../ui/notice.js'
import { AnswerTables } from './answer-tables.js'
import { Bars } from './bars.js'
import { Cohorts } from './cohorts.js'
import { Flow } from './flow.js'
import { Funnel } from './funnel.js'
import type { OnNumber } from './number-button.js'
import type { PlotProps } from './plot.js'
import { Totals } from './totals.js'

interface AnswerViewProps {
  answer: DrawnAnswer
  /** the answer about the period before */
  before?: AnswerBefore | null
  display: Display
  /** without it, numbers are no buttons */
  onNumber?: OnNumber | undefined
}

/** An answer, drawn; screen readers find its numbers as a table. */
export function AnswerView({ answer, before = null, display, onNumber }: AnswerViewProps) {
  const drawing = drawingOf(answer.query, display)
  const tables = useMemo(() => tablesOf(answer, before), [answer, before])
  const isEmpty = tables.every(({ rows }) => rows.length === 0) || (before === null && !hasNumbers(answer))
  if (isEmpty) return <p class="hint">Nothing was found in this time.</p>
  if (drawing === 'table') return <AnswerTables tables={tables} onNumber={onNumber} />
  return (
    <>
      <Drawn answer={answer} before={before} drawing={drawing} onNumber={onNumber} />
      {isPicture(answer, drawing) && <AnswerTables tables={tables} isForReaders />}
    </>
  )
}

/** Whether there is a number in it: an average of nothing is none. */
function hasNumbers(answer: DrawnAnswer): boolean {
  if (answer.kind !== 'series') return true
  return answer.results.some(({ points }) => points.some(({ value }) => value !== null))
}

/** Whether a screen reader finds no numbers in it. */
function isPicture(answer: DrawnAnswer, drawing: Drawing): boolean {
  if (answer.kind === 'paths') return true
  return answer.kind === 'series' && answer.query.interval !== 'none' && drawing !== 'number'
}

interface DrawnProps extends Required<Pick<AnswerViewProps, 'answer' | 'before'>> {
  drawing: Drawing
  onNumber: OnNumber | undefined
}

function Drawn({ answer, before, drawing, onNumber }: DrawnProps) {
  switch (answer.kind) {
    case 'funnel':
      return <Funnel answer={answer} onNumber={onNumber} />
    case 'retention':
      return <Cohorts answer={answer} onNumber={onNumber} />
    case 'paths':
      return <Flow answer={answer} onNumber={onNumber} />
    case 'series': {
      if (drawing === 'number') return <Totals answer={answer} before={before} onNumber={onNumber} />
      if (answer.query.interval === 'none') return <Bars answer={answer} before={before} onNumber={onNumber} />
      const shape = drawing === 'area' || drawing === 'bar' ? drawing : 'line'
      return <LazyPlot answer={answer} before={before} shape={shape} onNumber={onNumber} />
    }
  }
}

/** Loads what draws lines once there are some. */
function LazyPlot(props: PlotProps) {
  const { value, error } = useLoaded<{ Plot: ComponentType<PlotProps> }>('plot', () => import('./plot.js'))
  if (error) return <PartMissing />
  if (!value) return <Loading what="the chart" />
  return <value.Plot {...props} />
}
