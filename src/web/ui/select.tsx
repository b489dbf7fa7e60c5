import { useId } from 'preact/hooks'
import * as formStyles from './form.module.css'
import * as styles from './select.module.css'
import * as textStyles from './text.module.css'

interface SelectProps<T extends string> {
  label: string
  value: T
  /** pairs of a value and its label */
  options: readonly (readonly [value: T, text: string])[]
  onChange: (value: T) => void
  /** whether the label is for screen readers only */
  hidesLabel?: boolean
}

/** A drop-down list. */
export function Select<T extends string>({ label, value, options, onChange, hidesLabel }: SelectProps<T>) {
  const id = useId()
  return (
    <div class={formStyles.field}>
      <label for={id} class={hidesLabel ? textStyles.hidden : undefined}>
        {label}
      </label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

/** A choice with all options visible. */
export function SegmentedControl<T extends string>({ label, value, options, onChange }: SelectProps<T>) {
  const id = useId()
  return (
    <fieldset class={styles.segments}>
      <legend class={textStyles.hidden}>{label}</legend>
      {options.map(([option, text]) => (
        <label key={option}>
          <input type="radio" name={id} checked={option === value} onChange={() => onChange(option)} />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  )
}
