import { useMemo } from 'preact/hooks'
import type { FieldName } from '../../../contract/questions.js'
import { isWholeValue } from '../../lib/fields.js'
import { Button } from '../../ui/button.js'
import { Combobox } from '../../ui/combobox.js'
import { Suggestions } from '../suggestions.js'
import * as styles from './live-filters.module.css'

/** The filters of the live view, as encoded in the URL; empty fields match all. */
export interface FilterValues {
  event: string
  user: string
  property: string
  value: string
}

const NOTHING: FilterValues = { event: '', user: '', property: '', value: '' }

/** @param query of the route */
export function parseFilters(query: URLSearchParams): FilterValues {
  const part = (name: string) => query.get(name) ?? ''
  return { event: part('event'), user: part('user'), property: part('property'), value: part('value') }
}

export function hasNoFilters(filters: FilterValues): boolean {
  return Object.values(filters).every((part) => part === '')
}

/** The filter fields. */
export function FilterFields({
  filters,
  onChange,
}: {
  filters: FilterValues
  onChange: (filters: FilterValues) => void
}) {
  const { event, user, property, value } = filters
  const suggestions = useMemo(() => new Suggestions(), [])
  const change = (part: Partial<FilterValues>) => onChange({ ...filters, ...part })
  return (
    <search class={styles.filters}>
      <Combobox
        label="Event"
        placeholder="any"
        value={event}
        onChange={(event) => change({ event })}
        suggest={(text) => suggestions.suggestEvents(text)}
      />
      <Combobox
        label="User"
        placeholder="anyone"
        value={user}
        keepsTyped={() => true}
        onChange={(user) => change({ user })}
        suggest={(text, signal) => suggestions.suggestValues(['distinct_id'], event, text, signal, formatValue)}
      />
      <Combobox
        label="Property"
        placeholder="any"
        value={property}
        onChange={(property) => change({ property, value: '' })}
        suggest={(text) => suggestions.suggestProperties(event, text)}
      />
      {property !== '' && (
        <Combobox
          label="is"
          placeholder="anything"
          value={value}
          keepsTyped={isWholeValue}
          onChange={(value) => change({ value })}
          suggest={(text, signal) => suggestions.suggestValues(listFields(property), event, text, signal, formatValue)}
        />
      )}
      {!hasNoFilters(filters) && <Button onClick={() => onChange(NOTHING)}>Clear filters</Button>}
    </search>
  )
}

/** The fields of a name, which may contain dots, or consist of names within objects that are joined by dots. */
function listFields(property: string): FieldName[] {
  const path = property.split('.')
  return [['properties', property], ...(path.length > 1 ? [['properties', ...path]] : [])]
}

/** Formats the JSON of a value as `matchesProperty` takes it; null for no value. */
function formatValue(json: string): string | null {
  if (json === 'null') return null
  return json.startsWith('"') ? JSON.parse(json) : json
}
