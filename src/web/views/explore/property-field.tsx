import type { FieldName } from '../../../contract/questions.js'
import { formatField, parseField } from '../../lib/fields.js'
import { Combobox } from '../../ui/combobox.js'
import { useSuggestions } from '../suggestions.js'
import { useProblem } from './doubts.js'

interface PropertyFieldProps {
  label: string
  value: FieldName
  onChange: (field: FieldName) => void
  /** the events whose properties are suggested; empty for all */
  events: readonly string[]
  /** whether only numbers fit */
  areNumbers?: boolean
  hidesLabel?: boolean
  placeholder?: string
}

/** A property of events or users. */
export function PropertyField({ value, onChange, events, areNumbers = false, ...combobox }: PropertyFieldProps) {
  const suggestions = useSuggestions()
  const problem = useProblem()(value)
  return (
    <Combobox
      placeholder="Choose a property"
      {...combobox}
      value={formatField(value)}
      suggest={(text) => suggestions.suggestFields({ events, areNumbers }, text)}
      problem={problem}
      onChange={(text) => onChange(parseField(text))}
    />
  )
}
