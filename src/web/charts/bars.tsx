import { totalsOf } from '../lib/totals.js'
import { Change, TotalNumber, type TotalsProps } from './totals.js'

/** The totals of lines as bars, one below the other. */
export function Bars({ answer, before, onNumber }: TotalsProps) {
  const lines = totalsOf(answer, before)
  const most = Math.max(...lines.map(({ now }) => Math.abs(now.value ?? 0)), Number.MIN_VALUE)
  const hasColors = answer.query.series.length > 1
  return (
    <ul class="bars">
      {lines.map((line) => (
        <li key={line.name}>
          <bdi class="bar-name">{line.name}</bdi>
          <span class="bar-track" aria-hidden="true">
            <span
              class={`bar fill-${hasColors ? (line.series % 10) + 1 : 1}`}
              style={{ width: `${(Math.abs(line.now.value ?? 0) / most) * 100}%` }}
            />
          </span>
          <span class="bar-number">
            <TotalNumber line={line} onNumber={onNumber} />
          </span>
          <Change line={line} onNumber={onNumber} />
        </li>
      ))}
    </ul>
  )
}
