import { isWholeValue } from '../../lib/fields.js'
import { Combobox } from '../../ui/combobox.js'
import * as styles from './live-filters.module.css'
import { suggestEvents, suggestProperties, suggestPropertyValues, suggestValues } from './suggest.js'

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
  const change = (part: Partial<FilterValues>) => onChange({ ...filters, ...part })
  return (
    <search class={styles.filters}>
      <Combobox
        label="Event"
        placeholder="any"
        value={event}
        onChange={(event) => change({ event })}
        suggest={suggestEvents}
      />
      <Combobox
        label="User"
        placeholder="anyone"
        value={user}
        keepsTyped={() => true}
        onChange={(user) => change({ user })}
        suggest={(text, signal) => suggestValues('distinct_id', text, signal, event)}
      />
      <Combobox
        label="Property"
        placeholder="any"
        value={property}
        onChange={(property) => change({ property, value: '' })}
        suggest={(text, signal) => suggestProperties(text, signal, event)}
      />
      {property !== '' && (
        <Combobox
          label="is"
          placeholder="anything"
          value={value}
          keepsTyped={isWholeValue}
          onChange={(value) => change({ value })}
          suggest={(text, signal) => suggestPropertyValues(property, text, signal, event)}
        />
      )}
      {!hasNoFilters(filters) && (
        <button type="button" onClick={() => onChange(NOTHING)}>
          Clear filters
        </button>
      )}
    </search>
  )
}
