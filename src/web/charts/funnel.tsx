import type { AnswerTo, FunnelLine } from '../../contract/questions.js'
import { stepCell, stepText } from '../lib/answer-table.js'
import { visible } from '../lib/escape-invisible.js'
import { breakdownText } from '../lib/fields.js'
import { durationText, numberText, shareText } from '../lib/format.js'
import { useRowKeys } from '../lib/use-row-keys.js'
import { NumberButton, type OnNumber } from './number-button.js'

interface FunnelProps {
  answer: AnswerTo<'funnel'>
  onNumber: OnNumber | undefined
}

/** A bar per step, as long as its share of the first. */
export function Funnel({ answer, onNumber }: FunnelProps) {
  const { results, query } = answer
  const stepKeys = useRowKeys(query.steps.map((_, index) => stepText(query, index)))
  const isOpen = results.some(({ complete }) => !complete)
  return (
    <div class="funnel">
      {query.steps.map((_, index) => (
        <section key={stepKeys[index]} aria-label={`Step ${index + 1}`}>
          <h3>
            <span class="step-number">{index + 1}</span> <bdi>{visible(stepText(query, index))}</bdi>
          </h3>
          {results.map((line, color) => (
            <Step
              key={JSON.stringify(line.breakdown)}
              line={line}
              index={index}
              color={(color % 10) + 1}
              query={query}
              onNumber={onNumber}
            />
          ))}
        </section>
      ))}
      {isOpen && <p class="hint">Some users still have time to take the next step: these numbers may grow.</p>}
    </div>
  )
}

interface StepProps {
  line: FunnelLine
  index: number
  color: number
  query: AnswerTo<'funnel'>['query']
  onNumber: OnNumber | undefined
}

function Step({ line, index, color, query, onNumber }: StepProps) {
  const step = line.steps[index]
  if (!step) return null
  const name = query.breakdown.length > 0 ? visible(breakdownText(line.breakdown)) : ''
  const behind = (dropped: boolean) => ({ of: query, cell: stepCell(index, line.breakdown, dropped) })
  const dropped = (line.steps[index - 1]?.users ?? step.users) - step.users
  const title = `${visible(stepText(query, index))}${name && `, ${name}`}`
  return (
    <div class="funnel-step">
      {name && <bdi class="bar-name">{name}</bdi>}
      <span class="bar-track" aria-hidden="true">
        <span class={`bar fill-${color}`} style={{ width: `${step.of_first * 100}%` }} />
      </span>
      <p class="funnel-numbers">
        <strong>
          <NumberButton text={numberText(step.users)} title={title} behind={behind(false)} onNumber={onNumber} />
        </strong>{' '}
        users
        {index > 0 && (
          <>
            <span>
              <strong>{shareText(step.of_first)}</strong> of the first step
            </span>
            <span>{shareText(step.of_previous)} of the step before</span>
            {step.median_ms !== null && <span>median {durationText(step.median_ms)}</span>}
            {step.mean_ms !== null && <span>average {durationText(step.mean_ms)}</span>}
            <span>
              <NumberButton
                text={numberText(dropped)}
                title={`Did not get to ${title}`}
                behind={behind(true)}
                onNumber={dropped > 0 ? onNumber : undefined}
              />{' '}
              dropped
            </span>
          </>
        )}
      </p>
    </div>
  )
}
