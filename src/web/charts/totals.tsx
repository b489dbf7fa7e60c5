import type { AnswerTo } from '../../contract/questions.js'
import { numberText, signedShareText } from '../lib/format.js'
import type { AnswerBefore } from '../lib/period-before.js'
import { type LineTotal, totalsOf } from './line-totals.js'
import { NumberButton, type OnNumber } from './number-button.js'

export interface TotalsProps {
  answer: AnswerTo<'series'>
  before: AnswerBefore | null
  onNumber: OnNumber | undefined
}

/** The total of each line as a large number, with its change since the period before. */
export function Totals({ answer, before, onNumber }: TotalsProps) {
  return (
    <ul class="totals">
      {totalsOf(answer, before).map((line) => (
        <li key={line.name}>
          <span class="total">
            <TotalNumber line={line} onNumber={onNumber} />
          </span>
          <bdi class="hint">{line.name}</bdi>
          <Change line={line} onNumber={onNumber} />
        </li>
      ))}
    </ul>
  )
}

interface LineProps {
  line: LineTotal
  onNumber: OnNumber | undefined
}

/** The total of a line. */
export function TotalNumber({ line: { name, now }, onNumber }: LineProps) {
  const text = now.value === null ? '–' : numberText(now.value)
  return <NumberButton text={text} title={name} behind={now.behind} onNumber={onNumber} />
}

/** How much more or less it is than in the period before. */
export function Change({ line: { name, now, before }, onNumber }: LineProps) {
  if (!before) return null
  if (before.value === null || now.value === null) return <span class="change hint">nothing before</span>
  const share = (now.value - before.value) / Math.abs(before.value)
  const arrow = share > 0 ? '▲' : share < 0 ? '▼' : '■'
  const then = (
    <NumberButton
      text={numberText(before.value)}
      title={`${name}, period before`}
      behind={before.behind}
      onNumber={onNumber}
    />
  )
  if (before.value === 0) return <span class="change hint">{then} before</span>
  return (
    <span class="change">
      <span aria-hidden="true">{arrow}</span> {signedShareText(share)} <span class="hint">from {then} before</span>
    </span>
  )
}
