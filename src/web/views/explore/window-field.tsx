import { NumberField } from '../../ui/number-field.js'
import { Select } from '../../ui/select.js'
import { FieldErrors } from './field-errors.js'
import * as styles from './window-field.module.css'

const UNITS = [
  ['m', 'minutes'],
  ['h', 'hours'],
  ['d', 'days'],
  ['w', 'weeks'],
] as const
const OTHER_UNITS = [
  ['ms', 'milliseconds'],
  ['s', 'seconds'],
] as const

type Unit = (typeof UNITS | typeof OTHER_UNITS)[number][0]

interface WindowFieldProps {
  label: string
  /** such as `7d` */
  value: string
  onChange: (value: string) => void
}

/** A duration, such as the conversion window of a funnel. */
export function WindowField({ label, value, onChange }: WindowFieldProps) {
  const [, count = '7', unit = 'd'] = /^(\d+)(ms|s|m|h|d|w)$/.exec(value) ?? []
  const isOther = unit === 'ms' || unit === 's'
  return (
    <div class={styles.window}>
      <NumberField
        label={label}
        value={Number(count)}
        min={1}
        max={100_000}
        onChange={(next) => onChange(`${next}${unit}`)}
      />
      <Select<Unit>
        label="Unit"
        hidesLabel
        value={unit as Unit}
        options={isOther ? [...OTHER_UNITS, ...UNITS] : UNITS}
        onChange={(next) => onChange(`${count}${next}`)}
      />
      <FieldErrors path="/window" />
    </div>
  )
}
