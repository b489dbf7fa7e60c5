import { useEffect, useId, useState } from 'preact/hooks'
import * as formStyles from './form.module.css'

interface NumberFieldProps {
  label: string
  value: number
  min: number
  max: number
  onChange: (value: number) => void
}

/**
 * A whole number; invalid or out-of-range input is ignored. We do not use the type `number`, because some browsers show
 * it in the digits of their own language.
 */
export function NumberField({ label, value, min, max, onChange }: NumberFieldProps) {
  const id = useId()
  const [text, setText] = useState(String(value))
  useEffect(() => setText(String(value)), [value])
  return (
    <div class={formStyles.field}>
      <label for={id}>{label}</label>
      <input
        id={id}
        inputMode="numeric"
        autocomplete="off"
        value={text}
        onInput={({ currentTarget: { value } }) => {
          setText(value)
          const typed = /^\d+$/.test(value.trim()) ? Number(value) : Number.NaN
          if (typed >= min && typed <= max) onChange(typed)
        }}
        onBlur={() => setText(String(value))}
      />
    </div>
  )
}
