import { splitField } from '../contract/filters.js'
import type { FunnelLine, Question, SeriesLine } from '../contract/questions.js'
import type { Warning } from '../contract/warning.js'
import { formatPath } from './field-name.js'

/** Warns about fields of a breakdown that are unset everywhere in the answer, so that they split nothing. */
export function warnOfUnsetBreakdowns(question: Question, results: unknown): Warning[] {
  if (question.kind !== 'series' && question.kind !== 'funnel') return []
  const lines = results as (SeriesLine | FunnelLine)[]
  return question.breakdown.flatMap((field, i) => {
    if (lines.length === 0 || lines.some(({ breakdown }) => breakdown[i] !== null)) return []
    const [source, ...names] = splitField(field)
    if (source !== 'properties' && source !== 'user') return []
    const what = source === 'user' ? 'user' : 'event'
    return [{ path: `/breakdown/${i}`, message: `No ${what} here has ${formatPath(source, names)}.` }]
  })
}
