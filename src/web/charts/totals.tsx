import type { AnswerTo } from '../../contract/question-input.js'
import { lineNames } from '../lib/answer-names.js'
import { cellOf, lineBefore } from '../lib/answer-table.js'
import { numberText, signedShareText } from '../lib/format.js'
import type { OnCell } from './answer-view.js'
import { NumberButton } from './number-button.js'

interface TotalsProps {
  answer: AnswerTo<'series'>
  before: AnswerTo<'series'> | null
  onCell: OnCell | undefined
}

/** The total of each line as a large number, with its change since the period before. */
export function Totals({ answer, before, onCell }: TotalsProps) {
  const names = lineNames(answer.results, answer.query)
  return (
    <ul class="totals">
      {answer.results.map((line, i) => (
        <li key={names[i]}>
          <span class="total">
            <NumberButton
              text={line.total === null ? '–' : numberText(line.total)}
              title={names[i] ?? ''}
              cell={line.total === null ? undefined : cellOf(line)}
              onCell={onCell}
            />
          </span>
          <span class="hint">{names[i]}</span>
          {before && <Change now={line.total} then={lineBefore(line, before)?.total ?? null} />}
        </li>
      ))}
    </ul>
  )
}

/** How much more or less it is than in the period before. */
export function Change({ now, then }: { now: number | null; then: number | null }) {
  if (then === null || now === null) return <span class="change hint">nothing before</span>
  if (then === 0) return <span class="change hint">{numberText(then)} before</span>
  const share = (now - then) / Math.abs(then)
  const arrow = share > 0 ? '▲' : share < 0 ? '▼' : '■'
  return (
    <span class="change">
      <span aria-hidden="true">{arrow}</span> {signedShareText(share)}{' '}
      <span class="hint">from {numberText(then)} before</span>
    </span>
  )
}
