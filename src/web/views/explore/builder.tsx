import { withoutNull } from '../../../contract/fields.js'
import { Series } from '../../../contract/question-schemas.js'
import type { FieldName } from '../../../contract/questions.js'
import { useRowKeys } from '../../hooks/use-row-keys.js'
import {
  type Draft,
  type FunnelDraft,
  findBounds,
  listDefinitions,
  listSplitDefinitions,
  type SeriesDraft,
} from '../../lib/question.js'
import { NumberField } from '../../ui/number-field.js'
import { Checkbox } from '../../ui/text-field.js'
import * as styles from './builder.module.css'
import { FunnelBuilder } from './builder-funnel.js'
import { PathsBuilder } from './builder-paths.js'
import { RetentionBuilder } from './builder-retention.js'
import { SeriesBuilder } from './builder-series.js'
import { listEvents } from './event-field.js'
import { FieldErrors } from './field-errors.js'
import { FilterEditor } from './filter-editor.js'
import { PropertyField } from './property-field.js'

interface BuilderProps {
  draft: Draft
  onChange: (draft: Draft) => void
}

/** The form for a question. */
export function Builder({ draft, onChange }: BuilderProps) {
  return (
    <>
      <OfKind draft={draft} onChange={onChange} />
      <section aria-label="Filters of all events">
        <h2>Only events where</h2>
        <FilterEditor
          label="Filters of all events"
          value={draft.where}
          // Paths consist of events of any name.
          events={draft.kind === 'paths' ? [] : listEvents(listDefinitions(draft))}
          path="/where"
          onChange={(where) => onChange({ ...draft, where })}
        />
      </section>
      {(draft.kind === 'series' || draft.kind === 'funnel') && <BreakdownFields draft={draft} onChange={onChange} />}
    </>
  )
}

function OfKind({ draft, onChange }: BuilderProps) {
  switch (draft.kind) {
    case 'series':
      return <SeriesBuilder draft={draft} onChange={onChange} />
    case 'funnel':
      return <FunnelBuilder draft={draft} onChange={onChange} />
    case 'retention':
      return <RetentionBuilder draft={draft} onChange={onChange} />
    case 'paths':
      return <PathsBuilder draft={draft} onChange={onChange} />
  }
}

const { maxItems } = withoutNull(Series.properties.breakdown)

interface BreakdownFieldsProps {
  draft: SeriesDraft | FunnelDraft
  onChange: (draft: Draft) => void
}

/** The fields to break the answer down by. */
function BreakdownFields({ draft, onChange }: BreakdownFieldsProps) {
  const { breakdown, limit } = draft
  const fields: FieldName[] = breakdown.length < maxItems ? [...breakdown, ''] : breakdown
  const keys = useRowKeys(fields.map((field) => JSON.stringify(field)))
  const set = (i: number, field: FieldName) => {
    onChange({ ...draft, breakdown: fields.with(i, field).filter((one) => one.length > 0) })
  }
  return (
    <section aria-label="Breakdown">
      <h2>Break down by</h2>
      {fields.map((field, i) => (
        <PropertyField
          key={keys[i]}
          label={i === 0 ? 'Breakdown' : 'Second breakdown'}
          hidesLabel
          value={field}
          events={listEvents(listSplitDefinitions(draft))}
          placeholder={i === 0 ? 'Choose a property' : 'and by'}
          onChange={(next) => set(i, next)}
        />
      ))}
      <FieldErrors path="/breakdown" />
      {breakdown.length > 0 && (
        <div class={styles.row}>
          <NumberField
            label="Maximum values"
            value={limit}
            {...findBounds(Series.properties.limit)}
            onChange={(next) => onChange({ ...draft, limit: next })}
          />
          {draft.kind === 'series' && (
            <Checkbox
              label="Group the rest as Other"
              checked={draft.other}
              onChange={(other) => onChange({ ...draft, other })}
            />
          )}
        </div>
      )}
      <FieldErrors path="/limit" />
    </section>
  )
}
