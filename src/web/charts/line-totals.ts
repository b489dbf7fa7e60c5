import { labelLines } from '../../contract/labels.js'
import type { AnswerTo } from '../../contract/questions.js'
import { type DrillDown, drillIntoLine, findLineBefore } from '../lib/answer-table.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { formatMoney, formatNumber } from '../lib/format.js'
import type { AnswerBefore, LineBefore } from '../lib/period-before.js'

/** The total of a line, and its drill-down. */
interface Total {
  value: number | null
  /** for display */
  text: string
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

/** The totals of an answer and of the previous period. @param isMoney whether totals are amounts of money */
export function computeTotals(answer: AnswerTo<'series'>, before: AnswerBefore | null, isMoney: boolean): LineTotal[] {
  const format = isMoney ? formatMoney : formatNumber
  const names = labelLines(answer.results, answer.query)
  return answer.results.map((line, i) => ({
    name: escapeInvisible(names[i] ?? ''),
    series: line.series,
    now: buildTotal(answer, line, format),
    before: before && before.results[i] !== 'unknown' ? buildTotal(before, findLineBefore(before, i), format) : null,
  }))
}

/** The total of a line; null for a line without data. */
export function buildTotal(
  answer: Pick<AnswerTo<'series'>, 'query'>,
  line: LineBefore | null,
  format: (value: number) => string,
): Total {
  const value = line?.total ?? null
  return {
    value,
    text: value === null ? '–' : format(value),
    drillDown: line ? drillIntoLine(answer, line) : undefined,
  }
}
