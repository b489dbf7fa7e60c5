import { escapeInvisible } from '../lib/escape-invisible.js'
import { formatMoney, formatNumber } from '../lib/format.js'
import * as textStyles from '../ui/text.module.css'
import type { PlotData, PlotLine } from './plot-data.js'
import { Swatch } from './swatch.js'
import * as styles from './tooltip.module.css'

interface TooltipProps {
  data: PlotData
  lines: PlotLine[]
  isMoney: boolean
  index: number
  /** px from the left edge of the chart */
  left: number
  /** width of the chart, px */
  width: number
}

const MAX_LINES = 12

/** The numbers of a bucket, next to the pointer. Screen readers use the table instead. */
export function Tooltip({ data, lines, isMoney, index, left, width }: TooltipProps) {
  const side = left > width / 2 ? { right: `${width - left + 12}px` } : { left: `${left + 12}px` }
  const bucket = data.buckets[index]
  if (!bucket) return null
  const format = isMoney ? formatMoney : formatNumber
  const text = (value: number | null | undefined) => (value == null ? '–' : format(value))
  return (
    <div class={styles.tooltip} style={side} aria-hidden="true" data-tooltip>
      <p>
        {bucket.label}
        {!bucket.complete && ', not over yet'}
      </p>
      {bucket.labelBefore && (
        <p>
          {bucket.label && 'vs. '}
          {bucket.labelBefore}
        </p>
      )}
      <ul>
        {lines.slice(0, MAX_LINES).map((line) => (
          <li key={line.name}>
            <Swatch index={line.index} />
            <bdi class={styles.name}>{escapeInvisible(line.name)}</bdi>
            <span>{text(line.values[index])}</span>
            {line.before && <span class={textStyles.hint}>vs. {text(line.before[index])}</span>}
          </li>
        ))}
      </ul>
      {lines.length > MAX_LINES && <p class={textStyles.hint}>and {lines.length - MAX_LINES} more</p>}
    </div>
  )
}
