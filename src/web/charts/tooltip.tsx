import { visible } from '../lib/escape-invisible.js'
import { numberText } from '../lib/format.js'
import { COLORS } from './colors.js'
import type { PlotData, PlotLine } from './plot-data.js'

interface TipProps {
  data: PlotData
  lines: PlotLine[]
  index: number
  /** px */
  left: number
  /** of the chart, px */
  width: number
}

const MAX_LINES = 12

/** The numbers of a bucket, beside the pointer. Screen readers have the table. */
export function Tip({ data, lines, index, left, width }: TipProps) {
  const side = left > width / 2 ? { right: `${width - left + 12}px` } : { left: `${left + 12}px` }
  const text = (value: number | null | undefined) => (value == null ? '–' : numberText(value))
  return (
    <div class="tip" style={side} aria-hidden="true">
      <p>
        {data.labels[index]}
        {!data.complete[index] && ', not over yet'}
      </p>
      <ul>
        {lines.slice(0, MAX_LINES).map((line) => (
          <li key={line.name}>
            <span class={`swatch fill-${(line.index % COLORS) + 1}`} />
            <bdi class="tip-name">{visible(line.name)}</bdi>
            <span>{text(line.values[index])}</span>
            {line.before && <span class="hint">before {text(line.before[index])}</span>}
          </li>
        ))}
      </ul>
      {lines.length > MAX_LINES && <p class="hint">and {lines.length - MAX_LINES} more</p>}
    </div>
  )
}
