import { useEffect, useId, useState } from 'preact/hooks'
import { OPERATORS, type Scalar } from '../../../contract/filters.js'
import { formatValue, isTextField, isWholeValue, parseValue } from '../../lib/fields.js'
import type { Condition } from '../../lib/filters.js'
import { Combobox } from '../../ui/combobox.js'
import { Pills } from '../../ui/pills.js'
import * as textStyles from '../../ui/text.module.css'
import { formatPlainText, useSuggestions } from '../suggestions.js'

interface ValuesFieldProps {
  condition: Condition
  /** the events that have the values; empty for all */
  events: readonly string[]
  onChange: (condition: Condition) => void
}

/** The operand of a condition. */
export function ValuesField({ condition, events, onChange }: ValuesFieldProps) {
  const [operator, field, compared = []] = condition
  const set = (value: unknown) => onChange([operator, field, value] as Condition)
  const operand = OPERATORS[operator]
  if (operand === 'order') return <OneValue value={compared as string | number} onChange={set} />
  const values: Scalar[] = Array.isArray(compared) ? compared : [compared]
  const isText = operand === 'texts'
  return (
    <ValueList
      values={values.filter((value) => value !== '' || !isText)}
      format={isText ? String : formatValue}
      formatJson={isText ? formatPlainText : undefined}
      onChange={set}
      parse={
        isText
          ? (text) => (text.startsWith('"') ? String(parseValue(text)) : text)
          : (text) => parseValue(text, isTextField(field))
      }
      field={field}
      events={events}
      keepsTyped={(text) => isText || field === 'distinct_id' || isWholeValue(text)}
    />
  )
}

interface ValueListProps {
  values: Scalar[]
  format: (value: Scalar) => string
  /** formats the JSON of a suggested value; null leaves it out */
  formatJson: ((json: string) => string | null) | undefined
  /** parses what was typed or chosen */
  parse: (text: string) => Scalar
  onChange: (values: Scalar[]) => void
  field: Condition[1]
  events: readonly string[]
  /** whether a text is kept as typed: a part of a value, or a possible id that is not among the suggestions */
  keepsTyped: (text: string) => boolean
}

/** A list of values, any of which matches. */
function ValueList({ values, format, formatJson, parse, onChange, field, events, keepsTyped }: ValueListProps) {
  const suggestions = useSuggestions()
  const [event = ''] = events.length === 1 ? events : []
  const add = (text: string) => {
    const value = parse(text)
    if (text !== '' && !values.includes(value)) onChange([...values, value])
  }
  return (
    <>
      <Pills
        label="Values"
        texts={values.map(format)}
        nameRemoval={(text) => `Remove ${text}`}
        onRemove={(index) => onChange(values.toSpliced(index, 1))}
      />
      <Combobox
        label="Value"
        hidesLabel
        value=""
        placeholder={values.length > 0 ? 'or this value' : 'Choose a value'}
        suggest={async (text, signal) =>
          field.length > 0 ? suggestions.suggestValues([field], event, text, signal, formatJson) : []
        }
        keepsTyped={keepsTyped}
        onChange={add}
      />
    </>
  )
}

/** A single number or text. */
function OneValue({ value, onChange }: { value: string | number; onChange: (value: Scalar) => void }) {
  const id = useId()
  const shown = value === '' ? '' : formatValue(value)
  const [text, setText] = useState(shown)
  useEffect(() => setText(shown), [shown])
  return (
    <>
      <label for={id} class={textStyles.hidden}>
        Value
      </label>
      <input
        id={id}
        value={text}
        placeholder="A number"
        onInput={(event) => setText(event.currentTarget.value)}
        onChange={() => {
          const typed = text === '' ? '' : parseValue(text)
          onChange(typeof typed === 'number' ? typed : String(typed))
        }}
      />
    </>
  )
}
