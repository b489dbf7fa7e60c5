import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import * as formStyles from './form.module.css'
import * as textStyles from './text.module.css'

interface TextFieldProps {
  label: ComponentChildren
  value: string
  /** called with each change while the user types */
  onChange: (text: string) => void
  /** whether the label is for screen readers only */
  hidesLabel?: boolean
  placeholder?: string
  maxLength?: number
  required?: boolean
  autofocus?: boolean
  spellcheck?: boolean
  onFocus?: (event: { currentTarget: HTMLInputElement }) => void
}

/** A line of text. */
export function TextField({ label, onChange, hidesLabel, ...input }: TextFieldProps) {
  const id = useId()
  return (
    <div class={formStyles.field}>
      <label for={id} class={hidesLabel ? textStyles.hidden : undefined}>
        {label}
      </label>
      <input {...input} id={id} autocomplete="off" onInput={(event) => onChange(event.currentTarget.value)} />
    </div>
  )
}

/** A text field for a name, which is selected at first, so that typing replaces it. */
export function NameField(props: Pick<TextFieldProps, 'label' | 'value' | 'onChange' | 'autofocus'>) {
  return <TextField {...props} maxLength={255} required onFocus={({ currentTarget }) => currentTarget.select()} />
}

interface CheckboxProps {
  label: ComponentChildren
  checked: boolean
  disabled?: boolean
  onChange: (checked: boolean) => void
}

export function Checkbox({ label, onChange, ...input }: CheckboxProps) {
  return (
    <label class={formStyles.check}>
      <input type="checkbox" {...input} onChange={(event) => onChange(event.currentTarget.checked)} />
      {label}
    </label>
  )
}
