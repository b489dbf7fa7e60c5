import { useState } from 'preact/hooks'
import { KEPT, type Kept, keptSince, type ProjectSettings } from '../../../contract/project-settings.js'
import { type ExpiredData, previewChange } from '../../api/project.js'
import { useLoaded } from '../../hooks/use-loaded.js'
import { formatBytes, formatCount, formatDate } from '../../lib/format.js'
import { ActionDialog } from '../../ui/dialog.js'
import { Failure, Loading } from '../../ui/notice.js'
import { NumberField } from '../../ui/number-field.js'
import { Select } from '../../ui/select.js'
import { AGE_UNITS, type AgeUnit, formatAge, KEPT_NAMES, parseAge } from './setting-text.js'
import { SettingsForm } from './settings-form.js'
import * as styles from './settings-form.module.css'

type Keep = ProjectSettings['keep']

const TITLE = 'How long data is kept'
const FOREVER = 'forever'
const UNITS = [
  [FOREVER, 'Forever'],
  ...AGE_UNITS.map(([unit, word]) => [unit, `A number of ${word}s`] as const),
] as const
/** The limit of the service. */
const MAX_COUNT = 99_999
/** The count of a unit that was just chosen. */
const USUAL_COUNT: Record<AgeUnit, number> = { d: 90, w: 52, m: 25, y: 2 }
const NOUNS: Record<Kept, string> = { events: 'event', sessions: 'session', profiles: 'profile' }

interface RetentionFieldsProps {
  /** as it is stored */
  kept: Keep
  /** the unsaved changes */
  changed: Partial<Keep>
  status: string
  onChange: (fields: Partial<Keep>) => void
  onSave: () => Promise<void>
}

/** How long data is kept. Before a shorter age is saved, a dialog shows what it would remove. */
export function RetentionFields({ kept, changed, status, onChange, onSave }: RetentionFieldsProps) {
  const [isAsking, setAsking] = useState(false)
  const shortened = KEPT.filter((kind) => isShorter(kept[kind], changed[kind] ?? null))
  const keep = { ...kept, ...changed }
  const save = async () => {
    if (shortened.length === 0) return await onSave()
    setAsking(true)
  }
  return (
    <>
      <SettingsForm
        title={TITLE}
        hint="Events age by their own time, sessions by their last change, profiles by when their user was last seen."
        status={status}
        changed={changed}
        onSave={save}
      >
        <div class={styles.fields}>
          {KEPT.map((kind) => (
            <AgeFields key={kind} kind={kind} age={keep[kind]} onChange={(age) => onChange({ [kind]: age })} />
          ))}
        </div>
      </SettingsForm>
      {isAsking && (
        <ExpiryDialog changed={changed} shortened={shortened} onConfirm={onSave} onClose={() => setAsking(false)} />
      )}
    </>
  )
}

interface AgeFieldsProps {
  kind: Kept
  age: string | null
  onChange: (age: string | null) => void
}

function AgeFields({ kind, age, onChange }: AgeFieldsProps) {
  const parsed = parseAge(age)
  const unit: AgeUnit | typeof FOREVER = parsed?.unit ?? FOREVER
  return (
    <fieldset>
      <legend>{KEPT_NAMES[kind]}</legend>
      <Select
        label="Kept"
        value={unit}
        options={UNITS}
        onChange={(next) => onChange(next === FOREVER ? null : `${USUAL_COUNT[next]}${next}`)}
      />
      {parsed && (
        <NumberField
          label={`Number of ${AGE_UNITS.find(([one]) => one === parsed.unit)?.[1]}s`}
          value={parsed.count}
          min={1}
          max={MAX_COUNT}
          onChange={(count) => onChange(`${count}${parsed.unit}`)}
        />
      )}
    </fieldset>
  )
}

interface ExpiryDialogProps {
  changed: Partial<Keep>
  shortened: Kept[]
  onConfirm: () => Promise<void>
  onClose: () => void
}

/** Shows what shorter ages would remove. */
function ExpiryDialog({ changed, shortened, onConfirm, onClose }: ExpiryDialogProps) {
  const { value, error, reload } = useLoaded('expired', (signal) => previewChange({ keep: changed }, signal))
  return (
    <ActionDialog
      title="Keep data for a shorter time?"
      action="Save and remove"
      isBlocked={value === null}
      onConfirm={onConfirm}
      onClose={onClose}
    >
      {error && <Failure error={error} onRetry={reload} />}
      {!value && !error && <Loading what="what would be removed" />}
      {value && shortened.map((kind) => <p key={kind}>{describeExpired(kind, changed[kind] ?? null, value)}</p>)}
      <p>
        Older data is hidden immediately and removed from the disk within a day. <strong>This cannot be undone.</strong>
      </p>
    </ActionDialog>
  )
}

/** @param age the new one, which is named because it decides what is lost */
function describeExpired(kind: Kept, age: string | null, expired: ExpiredData): string {
  const { count, from, to, bytes } = expired[kind]
  const older = `${KEPT_NAMES[kind]} older than ${formatAge(age)} will be removed:`
  if (count === 0) return `${older} none now.`
  const range = from === null || to === null ? '' : `, from ${formatDate(from)} to ${formatDate(to)}`
  const size = bytes === 0 ? '' : `, about ${formatBytes(bytes)}`
  return `${older} ${formatCount(count, NOUNS[kind])}${range}${size}.`
}

/** Whether data that was kept before would expire. */
function isShorter(before: string | null, after: string | null): boolean {
  if (after === null) return false
  const now = Date.now()
  return before === null || keptSince(after, now) > keptSince(before, now)
}
