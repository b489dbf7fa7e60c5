import type { AnswerTo } from '../../contract/questions.js'
import { lineNames } from '../lib/answer-labels.js'
import { type Behind, lineBehind, lineOf } from '../lib/answer-table.js'
import { visible } from '../lib/escape-invisible.js'
import type { AnswerBefore, LineBefore } from '../lib/period-before.js'

/** The total of a line, and who is behind it. */
interface Total {
  value: number | null
  behind: Behind | undefined
}

export interface LineTotal {
  name: string
  /** of the question, from 0 */
  series: number
  now: Total
  /** in the period before; null if nobody asked about it, or the answer does not tell */
  before: Total | null
}

/** The totals of the lines of an answer, beside those of the period before. */
export function totalsOf(answer: AnswerTo<'series'>, before: AnswerBefore | null): LineTotal[] {
  const names = lineNames(answer.results, answer.query)
  return answer.results.map((line, i) => ({
    name: visible(names[i] ?? ''),
    series: line.series,
    now: { value: line.total, behind: lineBehind(answer, line) },
    before: before && before.results[i] !== 'unknown' ? totalBefore(before, lineOf(before, i)) : null,
  }))
}

function totalBefore(before: AnswerBefore, line: LineBefore | null): Total {
  return line ? { value: line.total, behind: lineBehind(before, line) } : { value: null, behind: undefined }
}
