import { escapeInvisible } from '../lib/escape-invisible.js'
import { COLORS } from './colors.js'
import type { PlotLine } from './plot-data.js'

interface LegendProps {
  lines: PlotLine[]
  shown: PlotLine[]
  onToggle: (name: string) => void
  hasBefore: boolean
}

/** The names of the lines; a click hides one or shows it again. */
export function Legend({ lines, shown, onToggle, hasBefore }: LegendProps) {
  return (
    <figcaption class="legend">
      {lines.map((line) => (
        <button
          key={line.name}
          type="button"
          class="plain"
          aria-pressed={shown.includes(line)}
          onClick={() => onToggle(line.name)}
        >
          <span class={`swatch fill-${(line.index % COLORS) + 1}`} aria-hidden="true" />
          <bdi>{escapeInvisible(line.name)}</bdi>
        </button>
      ))}
      {hasBefore && <span class="hint">faint: the period before</span>}
    </figcaption>
  )
}
