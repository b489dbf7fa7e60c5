import type { AnswerTo } from '../../contract/questions.js'
import { labelLines } from '../lib/answer-labels.js'
import { type DrillDown, drillIntoLine, findLineBefore } from '../lib/answer-table.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import type { AnswerBefore, LineBefore } from '../lib/period-before.js'

/** The total of a line, and its drill-down. */
interface Total {
  value: number | null
  drillDown: DrillDown | undefined
}

export interface LineTotal {
  name: string
  /** index of the series in the question */
  series: number
  now: Total
  /** in the previous period; null without a comparison, or if unknown */
  before: Total | null
}

/** The totals of an answer, with those of the previous period. */
export function computeTotals(answer: AnswerTo<'series'>, before: AnswerBefore | null): LineTotal[] {
  const names = labelLines(answer.results, answer.query)
  return answer.results.map((line, i) => ({
    name: escapeInvisible(names[i] ?? ''),
    series: line.series,
    now: { value: line.total, drillDown: drillIntoLine(answer, line) },
    before: before && before.results[i] !== 'unknown' ? toTotalBefore(before, findLineBefore(before, i)) : null,
  }))
}

function toTotalBefore(before: AnswerBefore, line: LineBefore | null): Total {
  return line ? { value: line.total, drillDown: drillIntoLine(before, line) } : { value: null, drillDown: undefined }
}
