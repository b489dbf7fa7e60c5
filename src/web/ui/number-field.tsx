import { useEffect, useId, useState } from 'preact/hooks'
import * as styles from './number-field.module.css'

interface NumberFieldProps {
  label: string
  value: number
  min: number
  max: number
  onChange: (value: number) => void
}

/** A whole number; invalid or out-of-range input is ignored. */
export function NumberField({ label, value, min, max, onChange }: NumberFieldProps) {
  const id = useId()
  const [text, setText] = useState(String(value))
  useEffect(() => setText(String(value)), [value])
  return (
    <div class={styles.numberField}>
      <label for={id}>{label}</label>
      <input
        id={id}
        type="number"
        min={min}
        max={max}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value)
          const typed = event.currentTarget.valueAsNumber
          if (Number.isInteger(typed) && typed >= min && typed <= max) onChange(typed)
        }}
        onBlur={() => setText(String(value))}
      />
    </div>
  )
}
