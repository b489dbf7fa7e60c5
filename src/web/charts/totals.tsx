import type { AnswerTo } from '../../contract/questions.js'
import { formatPeriod } from '../lib/answer-labels.js'
import { formatShare } from '../lib/format.js'
import type { AnswerBefore } from '../lib/period-before.js'
import * as textStyles from '../ui/text.module.css'
import { computeTotals, type LineTotal } from './line-totals.js'
import { NumberButton } from './number-button.js'
import { useRowLimit } from './row-limit.js'
import * as styles from './totals.module.css'

export interface TotalsProps {
  answer: AnswerTo<'series'>
  before: AnswerBefore | null
  /** whether the numbers are amounts of money */
  isMoney: boolean
}

/** The total of each line as a large number, with its change from the previous period. */
export function Totals({ answer, before, isMoney }: TotalsProps) {
  const lines = computeTotals(answer, before, isMoney)
  const { limit, more } = useRowLimit(lines.length)
  return (
    <>
      <ul class={styles.totals}>
        {lines.slice(0, limit).map((line) => (
          <li key={line.name}>
            <span class={styles.total} style={{ '--characters': line.now.text.length }}>
              <TotalNumber line={line} />
            </span>
            <bdi class={textStyles.hint}>{line.name}</bdi>
            <Change line={line} />
          </li>
        ))}
      </ul>
      {more}
      {before && <Periods answer={answer} before={before} />}
    </>
  )
}

/** The dates that are compared. */
export function Periods({ answer, before }: { answer: AnswerTo<'series'>; before: AnswerBefore }) {
  const isOpen = answer.results.some(({ points }) => points.at(-1)?.complete === false)
  return (
    <p class={`${textStyles.hint} ${styles.periods}`}>
      {formatPeriod(answer.query)}
      {isOpen && ' (not over yet)'}, compared to {formatPeriod(before.query)}
    </p>
  )
}

interface LineProps {
  line: LineTotal
}

/** The total of a line. */
export function TotalNumber({ line: { name, now } }: LineProps) {
  return <NumberButton text={now.text} title={name} drillDown={now.drillDown} />
}

/** The change from the previous period. @param isShort whether the text next to it already says what is compared */
export function Change({ line: { name, now, before }, isShort = false }: LineProps & { isShort?: boolean }) {
  if (!before) return null
  if (before.value === null) {
    return <span class={`${styles.change} ${textStyles.hint}`}>no data in the previous period</span>
  }
  const then = (
    <span class={textStyles.hint}>
      <span class={styles.unbroken}>
        vs. <NumberButton text={before.text} title={`${name}, previous period`} drillDown={before.drillDown} />
      </span>
      {!isShort && ' in the previous period'}
    </span>
  )
  // A change from zero has no percentage, and neither does a change to no value.
  if (before.value === 0 || now.value === null) return <span class={styles.change}>{then}</span>
  const share = (now.value - before.value) / Math.abs(before.value)
  const [arrow, direction] = share > 0 ? ['▲', 'up'] : share < 0 ? ['▼', 'down'] : ['■', 'unchanged']
  return (
    <span class={styles.change}>
      <span class={styles.unbroken}>
        <span role="img" aria-label={direction}>
          {arrow}
        </span>{' '}
        {formatShare(Math.abs(share))}
      </span>{' '}
      {then}
    </span>
  )
}
