import type { FieldName } from '../../../contract/questions.js'
import { formatField, parseField } from '../../lib/fields.js'
import { Combobox } from '../../ui/combobox.js'
import { useSuggestions } from './suggestions.js'

interface PropertyFieldProps {
  label: string
  value: FieldName
  onChange: (field: FieldName) => void
  /** the event whose properties are suggested */
  event: string
  hidesLabel?: boolean
  placeholder?: string
}

/** A property of events or users. */
export function PropertyField({ label, value, onChange, event, hidesLabel, placeholder }: PropertyFieldProps) {
  const suggestions = useSuggestions()
  return (
    <Combobox
      label={label}
      hidesLabel={hidesLabel ?? false}
      value={formatField(value)}
      placeholder={placeholder ?? 'Choose a property'}
      suggest={(text) => suggestions.suggestFields(event, text)}
      onChange={(text) => onChange(parseField(text))}
    />
  )
}
