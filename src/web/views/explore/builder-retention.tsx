import { Retention } from '../../../contract/question-schemas.js'
import { findBounds, type RetentionDraft } from '../../lib/question.js'
import { NumberField } from '../../ui/number-field.js'
import { Select } from '../../ui/select.js'
import * as builderStyles from './builder.module.css'
import { DefinitionField } from './event-field.js'
import { FieldErrors } from './field-errors.js'

const COHORTS = [
  ['first', 'for the first time'],
  ['recurring', 'every time'],
] as const
const UNITS = [
  ['day', 'Days'],
  ['week', 'Weeks'],
  ['month', 'Months'],
] as const
const MODES = [
  ['calendar', 'calendar'],
  ['rolling', 'rolling from each user’s start'],
] as const
const COUNTS = [
  ['on', 'in that period'],
  ['on_or_after', 'in it or later'],
] as const

interface RetentionBuilderProps {
  draft: RetentionDraft
  onChange: (draft: RetentionDraft) => void
}

/** The start and return events of a retention question, and its intervals. */
export function RetentionBuilder({ draft, onChange }: RetentionBuilderProps) {
  const { start, cohort, unit, mode, count, intervals } = draft
  return (
    <>
      <section aria-label="Start">
        <h2>Users who did</h2>
        <DefinitionField
          label="Start event"
          value={start}
          path="/start"
          onChange={(next) => onChange({ ...draft, start: next })}
        />
        <Select
          label="Counted"
          hidesLabel
          value={cohort}
          options={COHORTS}
          onChange={(next) => onChange({ ...draft, cohort: next })}
        />
      </section>
      <section aria-label="Return">
        <h2>Then came back to do</h2>
        <DefinitionField
          label="Return event"
          value={draft.return}
          path="/return"
          onChange={(next) => onChange({ ...draft, return: next })}
        />
      </section>
      <section aria-label="Intervals" class={builderStyles.fields}>
        <Select
          label="Period length"
          value={unit}
          options={UNITS}
          onChange={(next) => onChange({ ...draft, unit: next })}
        />
        <NumberField
          label="Number of periods"
          value={intervals}
          {...findBounds(Retention.properties.intervals)}
          onChange={(next) => onChange({ ...draft, intervals: next })}
        />
        <div class={builderStyles.wide}>
          <Select
            label="Periods"
            value={mode}
            options={MODES}
            onChange={(next) => onChange({ ...draft, mode: next })}
          />
          <Select
            label="Count as returned"
            value={count}
            options={COUNTS}
            onChange={(next) => onChange({ ...draft, count: next })}
          />
        </div>
        <FieldErrors path="/unit" />
      </section>
    </>
  )
}
