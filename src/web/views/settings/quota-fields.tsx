import {
  NAME_QUOTAS,
  type ProjectSettings,
  QUOTAS,
  type Quota,
  type QuotaName,
} from '../../../contract/project-settings.js'
import { NumberField } from '../../ui/number-field.js'
import { Select } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import { formatAmount, QUOTA_NAMES } from './setting-text.js'
import * as styles from './settings-form.module.css'

const NONE = 'none'
const MODES = [
  [NONE, 'No limit'],
  ['soft', 'Soft limit'],
  ['hard', 'Hard limit'],
] as const
/** The limit of a quota that was just set. */
const USUAL_LIMITS: Record<QuotaName, number> = {
  events_per_day: 1_000_000,
  events_per_month: 10_000_000,
  new_event_names_per_day: 100,
  new_property_names_per_day: 100,
  stored_bytes: 10_000_000_000,
}

interface QuotaFieldsProps {
  quotas: ProjectSettings['quotas']
  onChange: (fields: Partial<ProjectSettings['quotas']>) => void
}

/** The quotas of a project. */
export function QuotaFields({ quotas, onChange }: QuotaFieldsProps) {
  return (
    <div class={styles.fields}>
      {QUOTAS.map((name) => (
        <LimitFields key={name} name={name} quota={quotas[name]} onChange={(quota) => onChange({ [name]: quota })} />
      ))}
    </div>
  )
}

interface LimitFieldsProps {
  name: QuotaName
  quota: Quota | null
  onChange: (quota: Quota | null) => void
}

function LimitFields({ name, quota, onChange }: LimitFieldsProps) {
  const limit = quota?.limit ?? USUAL_LIMITS[name]
  if (quota?.locked) {
    return (
      <fieldset>
        <legend>{QUOTA_NAMES[name]}</legend>
        <p>
          {formatAmount(name, quota.limit)}, {quota.mode} limit
        </p>
        <p class={textStyles.hint}>Set by the operator of this service. Only the operator can change it.</p>
      </fieldset>
    )
  }
  return (
    <fieldset>
      <legend>{QUOTA_NAMES[name]}</legend>
      <Select
        label="Limit"
        value={quota?.mode ?? NONE}
        options={NAME_QUOTAS.includes(name) ? MODES.slice(0, 2) : MODES}
        onChange={(mode) => onChange(mode === NONE ? null : { limit, mode })}
      />
      {quota && (
        <NumberField
          label={name === 'stored_bytes' ? 'At most, in bytes' : 'At most'}
          value={quota.limit}
          min={1}
          max={Number.MAX_SAFE_INTEGER}
          onChange={(limit) => onChange({ ...quota, limit })}
        />
      )}
      {quota && name === 'stored_bytes' && <p class={textStyles.hint}>{formatAmount(name, quota.limit)}</p>}
    </fieldset>
  )
}
