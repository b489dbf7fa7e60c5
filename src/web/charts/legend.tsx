import { formatPeriod } from '../lib/answer-labels.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import type { AnswerBefore } from '../lib/period-before.js'
import { Button } from '../ui/button.js'
import * as textStyles from '../ui/text.module.css'
import * as styles from './legend.module.css'
import type { PlotLine } from './plot-data.js'
import { Swatch } from './swatch.js'

interface LegendProps {
  lines: PlotLine[]
  shown: PlotLine[]
  onToggle: (name: string) => void
  before: AnswerBefore | null
}

/** The names of the lines; a click toggles one. */
export function Legend({ lines, shown, onToggle, before }: LegendProps) {
  return (
    <figcaption class={styles.legend}>
      {lines.map((line) => (
        <Button key={line.name} look="plain" aria-pressed={shown.includes(line)} onClick={() => onToggle(line.name)}>
          <Swatch index={line.index} />
          <bdi>{escapeInvisible(line.name)}</bdi>
        </Button>
      ))}
      {before && <span class={textStyles.hint}>Faint: previous period, {formatPeriod(before.query)}</span>}
    </figcaption>
  )
}
