import type { FieldName } from '../../../contract/questions.js'
import { fieldOf, fieldText } from '../../lib/fields.js'
import { Combobox } from '../../ui/combobox.js'
import { useNames } from './suggestions.js'

interface PropertyFieldProps {
  label: string
  value: FieldName
  onChange: (field: FieldName) => void
  /** of which events the properties are */
  event: string
  hidesLabel?: boolean
  placeholder?: string
}

/** A field of events or users. */
export function PropertyField({ label, value, onChange, event, hidesLabel, placeholder }: PropertyFieldProps) {
  const names = useNames()
  return (
    <Combobox
      label={label}
      hidesLabel={hidesLabel ?? false}
      value={fieldText(value)}
      placeholder={placeholder ?? 'Choose a property'}
      suggest={(text) => names.fields(event, text)}
      onChange={(text) => onChange(fieldOf(text))}
    />
  )
}
