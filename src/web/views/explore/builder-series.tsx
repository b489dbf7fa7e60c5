import { SeriesDefinition as Definition, Series } from '../../../contract/question-schemas.js'
import type { Metric, SeriesDefinition } from '../../../contract/questions.js'
import { Swatch } from '../../charts/swatch.js'
import { useRowKeys } from '../../hooks/use-row-keys.js'
import { findBounds, isNumberMetric, type SeriesDraft } from '../../lib/question.js'
import { AddButton } from '../../ui/add-button.js'
import { NumberField } from '../../ui/number-field.js'
import { RemoveButton } from '../../ui/remove-button.js'
import { Select } from '../../ui/select.js'
import * as builderStyles from './builder.module.css'
import { DefinitionField, listEvents } from './event-field.js'
import { FieldErrors } from './field-errors.js'
import { PropertyField } from './property-field.js'

const fields = Definition.properties

const METRICS: readonly (readonly [Metric, string])[] = [
  ['events', 'Total events'],
  ['users', 'Unique users'],
  ['events_per_user', 'Events per user'],
  ['sum', 'Sum of a property'],
  ['avg', 'Average of a property'],
  ['median', 'Median of a property'],
  ['percentile', 'Percentile of a property'],
  ['min', 'Minimum'],
  ['max', 'Maximum'],
]

interface SeriesBuilderProps {
  draft: SeriesDraft
  onChange: (draft: SeriesDraft) => void
}

/** The series of a question over time. */
export function SeriesBuilder({ draft, onChange }: SeriesBuilderProps) {
  const { series } = draft
  const keys = useRowKeys(series.map((one) => JSON.stringify(one)))
  const set = (next: SeriesDefinition[]) => onChange({ ...draft, series: next })
  return (
    <section aria-label="Series">
      <h2>Series</h2>
      {series.map((one, i) => (
        <fieldset key={keys[i]} class={builderStyles.part} aria-label={`Series ${i + 1}`}>
          {series.length > 1 && (
            <header>
              <Swatch index={i} />
              <RemoveButton
                label={`Remove series ${i + 1}`}
                onClick={() => set(series.filter((_, other) => other !== i))}
              />
            </header>
          )}
          <OneSeries value={one} path={`/series/${i}`} onChange={(next) => set(series.with(i, next))} />
        </fieldset>
      ))}
      <FieldErrors path="/interval" />
      {series.length < Series.properties.series.maxItems && (
        <AddButton
          look="add"
          onClick={() => set([...series, { event: '', where: null, metric: series.at(-1)?.metric ?? 'events' }])}
        >
          + Series
        </AddButton>
      )}
    </section>
  )
}

interface OneSeriesProps {
  value: SeriesDefinition
  path: string
  onChange: (value: SeriesDefinition) => void
}

function OneSeries({ value, path, onChange }: OneSeriesProps) {
  const { metric, property = '', p = fields.p.default } = value
  return (
    <>
      <Select<Metric>
        label="Metric"
        hidesLabel
        value={metric}
        options={METRICS}
        onChange={(next) => onChange({ ...value, metric: next })}
      />
      {isNumberMetric(metric) && (
        <PropertyField
          label="Property"
          hidesLabel
          value={property}
          events={listEvents([value])}
          areNumbers
          onChange={(next) => onChange({ ...value, property: next })}
        />
      )}
      <FieldErrors path={`${path}/property`} />
      {metric === 'percentile' && (
        <NumberField
          label="Percent"
          value={p}
          {...findBounds(fields.p)}
          onChange={(next) => onChange({ ...value, p: next })}
        />
      )}
      <DefinitionField label="Event" value={value} path={path} onChange={onChange} />
    </>
  )
}
