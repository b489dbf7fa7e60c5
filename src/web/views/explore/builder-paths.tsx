import { Paths } from '../../../contract/question-schemas.js'
import { findBounds, type PathsDraft } from '../../lib/question.js'
import { NumberField } from '../../ui/number-field.js'
import { Select } from '../../ui/select.js'
import * as builderStyles from './builder.module.css'
import { DefinitionField } from './event-field.js'
import { FieldErrors } from './field-errors.js'
import { WindowField } from './window-field.js'

const DIRECTIONS = [
  ['start', 'After this event'],
  ['end', 'Before this event'],
] as const

interface PathsBuilderProps {
  draft: PathsDraft
  onChange: (draft: PathsDraft) => void
}

/** What users do before or after an event. */
export function PathsBuilder({ draft, onChange }: PathsBuilderProps) {
  const { start, end, steps, limit } = draft
  const event = start ?? end ?? { event: '', where: null }
  const direction = end ? 'end' : 'start'
  const set = (next: typeof event, side: 'start' | 'end') => {
    onChange({ ...draft, start: side === 'start' ? next : null, end: side === 'end' ? next : null })
  }
  return (
    <>
      <section aria-label="Event">
        <h2>What users do</h2>
        <Select
          label="Direction"
          hidesLabel
          value={direction}
          options={DIRECTIONS}
          onChange={(side) => set(event, side)}
        />
        <DefinitionField label="Event" value={event} path={`/${direction}`} onChange={(next) => set(next, direction)} />
        <FieldErrors path="/start" />
      </section>
      <section aria-label="Rules" class={builderStyles.fields}>
        <NumberField
          label="Steps"
          value={steps}
          {...findBounds(Paths.properties.steps)}
          onChange={(next) => onChange({ ...draft, steps: next })}
        />
        <NumberField
          label="Events per step"
          value={limit}
          {...findBounds(Paths.properties.limit)}
          onChange={(next) => onChange({ ...draft, limit: next })}
        />
        <WindowField label="Within" value={draft.window} onChange={(window) => onChange({ ...draft, window })} />
      </section>
    </>
  )
}
