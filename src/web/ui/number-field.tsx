import { useEffect, useId, useState } from 'preact/hooks'
import { useInvalidField } from '../hooks/use-invalid-field.js'
import * as formStyles from './form.module.css'

interface NumberFieldProps {
  label: string
  value: number
  min: number
  max: number
  /** called with valid numbers only */
  onChange: (value: number) => void
}

/**
 * A whole number. While the text is anything else, the value stays that of the last valid text, which the field no longer
 * shows, so the field is marked, and its form must not use the value: see `InvalidFieldsContext`. We do not use the type
 * `number`, because some browsers show it in the digits of their own language.
 */
export function NumberField({ label, value, min, max, onChange }: NumberFieldProps) {
  const id = useId()
  /** the text as typed, and the value to which it belongs */
  const [typed, setTyped] = useState({ text: String(value), value })
  const text = typed.value === value ? typed.text : String(value)
  // If the value is changed elsewhere, the typed text is gone, even if the value is changed back.
  useEffect(() => setTyped((last) => (last.value === value ? last : { text: String(value), value })), [value])
  const parse = (text: string) => {
    // Separators are refused, because the number format of the project decides which ones group and which begin decimals.
    const number = /^\d+$/.test(text.trim()) ? Number(text) : Number.NaN
    return number >= min && number <= max ? number : null
  }
  // A value that is not the user's, such as one in a link, is validated by the service.
  const isInvalid = text !== String(value) && parse(text) === null
  useInvalidField(isInvalid)
  return (
    <div class={formStyles.field}>
      <label for={id}>{label}</label>
      <input
        id={id}
        inputMode="numeric"
        autocomplete="off"
        value={text}
        aria-invalid={isInvalid}
        aria-describedby={isInvalid ? `${id}-problem` : undefined}
        onInput={({ currentTarget: { value: text } }) => {
          const next = parse(text) ?? value
          setTyped({ text, value: next })
          if (next !== value) onChange(next)
        }}
      />
      {isInvalid && (
        <p id={`${id}-problem`} class={formStyles.error}>
          Enter a whole number from {min} to {max}, in digits only.
        </p>
      )}
    </div>
  )
}
