import { labelBreakdowns } from '../../contract/labels.js'
import type { AnswerTo, FunnelLine } from '../../contract/questions.js'
import { useRowKeys } from '../hooks/use-row-keys.js'
import { labelStep, toStepCell } from '../lib/answer-table.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import { formatDuration, formatNumber, formatShare } from '../lib/format.js'
import * as textStyles from '../ui/text.module.css'
import * as barsStyles from './bars.module.css'
import { seriesColor } from './colors.js'
import * as styles from './funnel.module.css'
import { NumberButton } from './number-button.js'
import { useRowLimit } from './row-limit.js'

/** One bar per step; its length is the share of users of the first step. */
export function Funnel({ answer: { results, query } }: { answer: AnswerTo<'funnel'> }) {
  const stepKeys = useRowKeys(query.steps.map((_, index) => labelStep(query, index)))
  const { limit, more } = useRowLimit(results.length * query.steps.length)
  const shown = results.slice(0, Math.max(1, Math.floor(limit / query.steps.length)))
  const names = query.breakdown.length > 0 ? labelBreakdowns(results.map(({ breakdown }) => breakdown)) : []
  const isOpen = results.some(({ complete }) => !complete)
  return (
    <div class={styles.funnel}>
      {query.steps.map((_, index) => (
        <section key={stepKeys[index]} aria-label={`Step ${index + 1}`}>
          <h3>
            <span class={styles.stepNumber}>{index + 1}</span> <bdi>{escapeInvisible(labelStep(query, index))}</bdi>
          </h3>
          {shown.map((line, color) => (
            <Step
              key={JSON.stringify(line.breakdown)}
              name={escapeInvisible(names[color] ?? '')}
              line={line}
              index={index}
              color={color}
              query={query}
            />
          ))}
        </section>
      ))}
      {more}
      {isOpen && (
        <p class={textStyles.hint}>Some users still have time to take the next step: these numbers may grow.</p>
      )}
    </div>
  )
}

interface StepProps {
  /** the label of the breakdown; empty without one */
  name: string
  line: FunnelLine
  index: number
  color: number
  query: AnswerTo<'funnel'>['query']
}

function Step({ name, line, index, color, query }: StepProps) {
  const step = line.steps[index]
  if (!step) return null
  const drillDown = (dropped: boolean) => ({ of: query, cell: toStepCell(index, line.breakdown, dropped) })
  const dropped = (line.steps[index - 1]?.users ?? step.users) - step.users
  const title = `${escapeInvisible(labelStep(query, index))}${name && `, ${name}`}`
  return (
    <div class={styles.step}>
      {name && <bdi class={barsStyles.name}>{name}</bdi>}
      <span class={barsStyles.track} aria-hidden="true">
        <span class={barsStyles.bar} style={{ width: `${step.of_first * 100}%`, background: seriesColor(color) }} />
      </span>
      <p class={styles.numbers}>
        <span>
          <strong>
            <NumberButton text={formatNumber(step.users)} title={title} drillDown={drillDown(false)} />
          </strong>{' '}
          users
        </span>
        {index > 0 && (
          <>
            <span>
              <strong>{formatShare(step.of_first)}</strong> of the first step
            </span>
            <span>{formatShare(step.of_previous)} of the previous step</span>
            {step.median_ms !== null && <span>median {formatDuration(step.median_ms)}</span>}
            {step.mean_ms !== null && <span>average {formatDuration(step.mean_ms)}</span>}
            <span>
              <NumberButton
                text={formatNumber(dropped)}
                title={`Dropped off before ${title}`}
                drillDown={dropped > 0 ? drillDown(true) : undefined}
              />{' '}
              dropped off
            </span>
          </>
        )}
      </p>
    </div>
  )
}
