import * as styles from './bars.module.css'
import { seriesColor } from './colors.js'
import { computeTotals } from './line-totals.js'
import { Change, TotalNumber, type TotalsProps } from './totals.js'

/** The totals of an answer as horizontal bars. */
export function Bars({ answer, before, onDrillDown }: TotalsProps) {
  const lines = computeTotals(answer, before)
  const most = Math.max(...lines.map(({ now }) => Math.abs(now.value ?? 0)), Number.MIN_VALUE)
  // Scaled to -1…1, because the difference of two large numbers could overflow.
  const shares = lines.map(({ now }) => (now.value ?? 0) / most)
  const least = Math.min(0, ...shares)
  const span = Math.max(0, ...shares) - least || 1
  const hasColors = answer.query.series.length > 1
  return (
    <ul class={styles.bars}>
      {lines.map((line, i) => (
        <li key={line.name}>
          <bdi class={styles.name}>{line.name}</bdi>
          <span class={styles.track} aria-hidden="true">
            <span
              class={styles.bar}
              style={{
                ...positionBar(shares[i] ?? 0, least, span),
                background: seriesColor(hasColors ? line.series : 0),
              }}
            />
          </span>
          <span class={styles.number}>
            <TotalNumber line={line} onDrillDown={onDrillDown} />
          </span>
          <Change line={line} onDrillDown={onDrillDown} />
        </li>
      ))}
    </ul>
  )
}

/** Positions a bar between zero and its share, on a track that starts at the smallest share. */
function positionBar(share: number, least: number, span: number): { marginLeft: string; width: string } {
  const percent = (part: number) => `${(part / span) * 100}%`
  return { marginLeft: percent(Math.min(share, 0) - least), width: percent(Math.abs(share)) }
}
