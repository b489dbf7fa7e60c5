import type { AnswerTo } from '../../contract/questions.js'
import { formatNumber, formatSignedShare } from '../lib/format.js'
import type { AnswerBefore } from '../lib/period-before.js'
import * as textStyles from '../ui/text.module.css'
import { computeTotals, type LineTotal } from './line-totals.js'
import { NumberButton, type OnDrillDown } from './number-button.js'
import * as styles from './totals.module.css'

export interface TotalsProps {
  answer: AnswerTo<'series'>
  before: AnswerBefore | null
  onDrillDown: OnDrillDown | undefined
}

/** The total of each line as a large number, with its change from the period before. */
export function Totals({ answer, before, onDrillDown }: TotalsProps) {
  return (
    <ul class={styles.totals}>
      {computeTotals(answer, before).map((line) => (
        <li key={line.name}>
          <span class={styles.total}>
            <TotalNumber line={line} onDrillDown={onDrillDown} />
          </span>
          <bdi class={textStyles.hint}>{line.name}</bdi>
          <Change line={line} onDrillDown={onDrillDown} />
        </li>
      ))}
    </ul>
  )
}

interface LineProps {
  line: LineTotal
  onDrillDown: OnDrillDown | undefined
}

/** The total of a line. */
export function TotalNumber({ line: { name, now }, onDrillDown }: LineProps) {
  const text = now.value === null ? '–' : formatNumber(now.value)
  return <NumberButton text={text} title={name} drillDown={now.drillDown} onDrillDown={onDrillDown} />
}

/** The change from the period before. */
export function Change({ line: { name, now, before }, onDrillDown }: LineProps) {
  if (!before) return null
  if (before.value === null || now.value === null)
    return <span class={`${styles.change} ${textStyles.hint}`}>nothing before</span>
  const share = (now.value - before.value) / Math.abs(before.value)
  const arrow = share > 0 ? '▲' : share < 0 ? '▼' : '■'
  const then = (
    <NumberButton
      text={formatNumber(before.value)}
      title={`${name}, period before`}
      drillDown={before.drillDown}
      onDrillDown={onDrillDown}
    />
  )
  if (before.value === 0) return <span class={`${styles.change} ${textStyles.hint}`}>{then} before</span>
  return (
    <span class={styles.change}>
      <span aria-hidden="true">{arrow}</span> {formatSignedShare(share)}{' '}
      <span class={textStyles.hint}>from {then} before</span>
    </span>
  )
}
