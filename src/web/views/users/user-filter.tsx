import { useMemo } from 'preact/hooks'
import type { FieldName, Filter } from '../../../contract/filters.js'
import { type Choice, filterChoices } from '../../lib/choices.js'
import { FilterEditor } from '../explore/filter-editor.js'
import { type FieldsWanted, Suggestions, SuggestionsContext } from '../suggestions.js'

interface UserFilterProps {
  value: Filter | null
  onChange: (filter: Filter | null) => void
}

/** A filter of users by their id and their properties. */
export function UserFilter({ value, onChange }: UserFilterProps) {
  const suggestions = useMemo(() => new UserSuggestions(), [])
  return (
    <SuggestionsContext.Provider value={suggestions}>
      <FilterEditor
        label="Filter users"
        value={value}
        events={[]}
        path="/where"
        onChange={(filter) => onChange(filter && toUserFilter(filter))}
      />
    </SuggestionsContext.Provider>
  )
}

/** Suggests only fields of users, and values without counts, which would be of events. */
class UserSuggestions extends Suggestions {
  override async suggestValues(...of: Parameters<Suggestions['suggestValues']>): Promise<Choice[]> {
    return (await super.suggestValues(...of)).map(({ value }) => ({ value }))
  }

  override async suggestFields(wanted: FieldsWanted, text: string): Promise<Choice[]> {
    const choices = await super.suggestFields(wanted, '')
    return filterChoices(
      text,
      choices.filter(({ value }) => /^(?:distinct_id$|user\.|\["user",)/.test(value)),
    )
  }
}

/** A name without a source stands for a property, here of the user. */
function toUserFilter(filter: Filter): Filter {
  if (filter[0] === 'not') return ['not', toUserFilter(filter[1])]
  if (filter[0] === 'and' || filter[0] === 'or') return [filter[0], filter[1].map(toUserFilter)]
  const [operator, field, ...operand] = filter
  return [operator, toUserField(field as FieldName), ...operand] as Filter
}

function toUserField(field: FieldName): FieldName {
  if (typeof field === 'string') return field.replace(/^properties\./, 'user.')
  return field[0] === 'properties' ? ['user', ...field.slice(1)] : field
}
