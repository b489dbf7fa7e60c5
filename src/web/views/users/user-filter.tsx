import { useMemo } from 'preact/hooks'
import { type FieldName, type Filter, splitField } from '../../../contract/filters.js'
import type { ListedUser } from '../../api/users.js'
import { type Choice, filterChoices } from '../../lib/choices.js'
import { listValuesAt } from '../../lib/listed-properties.js'
import { FilterEditor } from '../explore/filter-editor.js'
import { type FieldsWanted, formatPlain, Suggestions, SuggestionsContext } from '../suggestions.js'

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
  /** The service lists the values that events have, so those of users without events come from a sample of profiles. */
  override async suggestValues(...of: Parameters<Suggestions['suggestValues']>): Promise<Choice[]> {
    const [fields, , text, , format = formatPlain] = of
    const [ofEvents, users] = await Promise.all([super.suggestValues(...of), this.sampleUsers()])
    const ofUsers = fields.flatMap((field) => listUserValues(users, field)).map(format)
    const values = new Set([...ofEvents.map(({ value }) => value), ...ofUsers.filter((value) => value !== null)])
    return filterChoices(
      text,
      [...values].map((value) => ({ value })),
    )
  }

  override async suggestFields(wanted: FieldsWanted, text: string): Promise<Choice[]> {
    const choices = await super.suggestFields(wanted, '')
    return filterChoices(
      text,
      choices.filter(({ value }) => /^(?:distinct_id$|user\.|\["user",)/.test(value)),
    )
  }
}

/** The JSON of the values that users have for a field. */
function listUserValues(users: readonly ListedUser[], field: FieldName): string[] {
  const [source, ...names] = splitField(field)
  if (source === 'distinct_id') return users.map(({ distinct_id }) => JSON.stringify(distinct_id))
  const profiles = users.map(({ text }) => text)
  return source === 'user' ? listValuesAt(profiles, names).filter((json) => json !== 'null') : []
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
