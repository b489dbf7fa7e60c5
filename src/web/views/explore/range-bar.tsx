import type { Interval } from '../../../contract/questions.js'
import { changeRange, type Display, type Draft } from '../../lib/question.js'
import { chooseInterval, type Moment, type RangeChoice, resolveRange } from '../../lib/range.js'
import { Select } from '../../ui/select.js'
import { RangeFields } from '../range-fields.js'
import * as rangeStyles from '../range-fields.module.css'
import { FieldErrors } from './field-errors.js'

const INTERVALS: readonly (readonly [Interval, string])[] = [
  ['hour', 'hourly'],
  ['day', 'daily'],
  ['week', 'weekly'],
  ['month', 'monthly'],
  ['none', 'total'],
]

interface RangeBarProps {
  draft: Draft
  display: Display
  moment: Moment
  onChange: (draft: Draft, display: Display) => void
}

/** The time range and interval of a question. */
export function RangeBar({ draft, display, moment, onChange }: RangeBarProps) {
  const choice = { ...draft, ...(display.range && { range: display.range }) }
  const change = (next: RangeChoice) => {
    const { range: _, ...rest } = display
    onChange(changeRange(draft, next, Date.now()), { ...rest, ...(next.range && { range: next.range }) })
  }
  return (
    <div class={rangeStyles.range}>
      <RangeFields choice={choice} moment={moment} onChange={change}>
        {draft.kind === 'series' && (
          <Select
            label="Interval"
            value={draft.interval ?? chooseInterval(resolveRange(choice, moment), draft.timezone)}
            options={INTERVALS}
            onChange={(interval) => onChange({ ...draft, interval }, display)}
          />
        )}
      </RangeFields>
      <FieldErrors path="/timezone" />
      <FieldErrors path="/from" />
      <FieldErrors path="/to" />
    </div>
  )
}
