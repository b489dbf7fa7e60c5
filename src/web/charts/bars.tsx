import type { AnswerTo } from '../../contract/question-input.js'
import { lineNames } from '../lib/answer-names.js'
import { cellOf, lineBefore } from '../lib/answer-table.js'
import { numberText } from '../lib/format.js'
import type { OnCell } from './answer-view.js'
import { NumberButton } from './number-button.js'
import { Change } from './totals.js'

interface BarsProps {
  answer: AnswerTo<'series'>
  before: AnswerTo<'series'> | null
  onCell: OnCell | undefined
}

/** The totals of lines as bars, one below the other. */
export function Bars({ answer: { results, query }, before, onCell }: BarsProps) {
  const names = lineNames(results, query)
  const most = Math.max(...results.map(({ total }) => Math.abs(total ?? 0)), Number.MIN_VALUE)
  return (
    <ul class="bars">
      {results.map((line, i) => (
        <li key={names[i]}>
          <span class="bar-name">{names[i]}</span>
          <span class="bar-track" aria-hidden="true">
            <span
              class={`bar fill-${query.series.length > 1 ? (line.series % 10) + 1 : 1}`}
              style={{ width: `${(Math.abs(line.total ?? 0) / most) * 100}%` }}
            />
          </span>
          <span class="bar-number">
            <NumberButton
              text={line.total === null ? '–' : numberText(line.total)}
              title={names[i] ?? ''}
              cell={line.total === null ? undefined : cellOf(line)}
              onCell={onCell}
            />
          </span>
          {before && <Change now={line.total} then={lineBefore(line, before)?.total ?? null} />}
        </li>
      ))}
    </ul>
  )
}
