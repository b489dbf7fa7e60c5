import * as styles from './bars.module.css'
import { seriesColor } from './colors.js'
import { computeTotals } from './line-totals.js'
import { useRowLimit } from './row-limit.js'
import { Change, Periods, TotalNumber, type TotalsProps } from './totals.js'

/** The totals of an answer as horizontal bars, each above the bar of the previous period. */
export function Bars({ answer, before, isMoney }: TotalsProps) {
  const lines = computeTotals(answer, before, isMoney)
  const { limit, more } = useRowLimit(lines.length)
  const values = lines.flatMap((line) => [line.now.value ?? 0, line.before?.value ?? 0])
  const max = Math.max(...values.map(Math.abs), Number.MIN_VALUE)
  // Scaled to -1…1, because the difference of two large numbers could overflow.
  const scale = (value: number | null) => (value ?? 0) / max
  const min = Math.min(0, ...values.map(scale))
  const span = Math.max(0, ...values.map(scale)) - min || 1
  const hasColors = answer.query.series.length > 1
  const drawBar = (value: number | null, series: number) => ({
    ...positionBar(scale(value), min, span),
    background: seriesColor(hasColors ? series : 0),
  })
  return (
    <>
      <ul class={styles.bars}>
        {lines.slice(0, limit).map((line) => (
          <li key={line.name}>
            <bdi class={styles.name}>{line.name}</bdi>
            <span class={styles.track} aria-hidden="true">
              <span class={styles.bar} style={drawBar(line.now.value, line.series)} />
            </span>
            <span class={styles.number}>
              <TotalNumber line={line} />
            </span>
            {line.before && (
              <span class={`${styles.track} ${styles.before}`} aria-hidden="true">
                <span class={styles.bar} style={drawBar(line.before.value, line.series)} />
              </span>
            )}
            <Change line={line} />
          </li>
        ))}
      </ul>
      {more}
      {before && <Periods answer={answer} before={before} />}
    </>
  )
}

/** Positions a bar between zero and its share, on a track that starts at the smallest share. */
function positionBar(share: number, min: number, span: number): { marginLeft: string; width: string } {
  const percent = (part: number) => `${(part / span) * 100}%`
  return { marginLeft: percent(Math.min(share, 0) - min), width: percent(Math.abs(share)) }
}
