import type { ComponentType } from 'preact'
import { useMemo } from 'preact/hooks'
import { useLoaded } from '../hooks/use-loaded.js'
import { buildTables, type DrawnAnswer } from '../lib/answer-table.js'
import type { AnswerBefore } from '../lib/period-before.js'
import { canBeMoney, chooseVisualization, type Display, type Visualization } from '../lib/question.js'
import { Loading, PartMissing } from '../ui/notice.js'
import * as textStyles from '../ui/text.module.css'
import { AnswerTables } from './answer-tables.js'
import { Bars } from './bars.js'
import { Cohorts } from './cohorts.js'
import { Flow } from './flow.js'
import { Funnel } from './funnel.js'
import type { PlotProps } from './plot.js'
import { Totals } from './totals.js'

interface AnswerViewProps {
  answer: DrawnAnswer
  /** the answer about the previous period */
  before?: AnswerBefore | null
  display: Display
}

/** An answer as a chart, with a table for screen readers. */
export function AnswerView({ answer, before = null, display }: AnswerViewProps) {
  const drawing = chooseVisualization(answer.query, display)
  const isMoney = display.money === true && canBeMoney(answer.query)
  const tables = useMemo(() => buildTables(answer, before, isMoney), [answer, before, isMoney])
  const isEmpty = tables.every(({ rows }) => rows.length === 0) || !hasNumbers(answer, before)
  if (isEmpty) return <p class={textStyles.hint}>No events in this period.</p>
  if (drawing === 'table') return <AnswerTables tables={tables} />
  return (
    <>
      <Drawn answer={answer} before={before} isMoney={isMoney} drawing={drawing} />
      {isPicture(answer, drawing) && <AnswerTables tables={tables} isForReaders />}
    </>
  )
}

/** Whether the answer or the previous period has any number. The average of no events is not one. */
function hasNumbers(answer: DrawnAnswer, before: AnswerBefore | null): boolean {
  if (answer.kind !== 'series') return true
  // A breakdown without values has no lines.
  if (before) return answer.results.length > 0
  return answer.results.some(({ points }) => points.some(({ value }) => value !== null))
}

/** Whether the chart is an image, without numbers that a screen reader could read. */
function isPicture(answer: DrawnAnswer, drawing: Visualization): boolean {
  if (answer.kind === 'paths') return true
  return answer.kind === 'series' && answer.query.interval !== 'none' && drawing !== 'number'
}

interface DrawnProps extends Required<Pick<AnswerViewProps, 'answer' | 'before'>> {
  isMoney: boolean
  drawing: Visualization
}

function Drawn({ answer, before, isMoney, drawing }: DrawnProps) {
  switch (answer.kind) {
    case 'funnel':
      return <Funnel answer={answer} />
    case 'retention':
      return <Cohorts answer={answer} />
    case 'paths':
      return <Flow answer={answer} />
    case 'series': {
      const props = { answer, before, isMoney }
      if (drawing === 'number') return <Totals {...props} />
      if (answer.query.interval === 'none') return <Bars {...props} />
      return <LazyPlot {...props} shape={drawing === 'area' || drawing === 'bar' ? drawing : 'line'} />
    }
  }
}

/** Loads the plotting library when it is first needed. */
function LazyPlot(props: PlotProps) {
  const { value, error } = useLoaded<{ Plot: ComponentType<PlotProps> }>('plot', () => import('./plot.js'))
  if (error) return <PartMissing />
  if (!value) return <Loading what="the chart" />
  return <value.Plot {...props} />
}
