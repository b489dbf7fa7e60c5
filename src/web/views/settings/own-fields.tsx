import {
  DEFAULT_SETTINGS,
  FIRST_VIEWS,
  NUMBER_FORMATS,
  type ProjectSettings,
} from '../../../contract/project-settings.js'
import { capitalize } from '../../lib/format.js'
import { suggestTimeZones } from '../../lib/intl.js'
import { Combobox } from '../../ui/combobox.js'
import { Select } from '../../ui/select.js'
import { TextField } from '../../ui/text-field.js'
import { WEEKS } from '../range-fields.js'
import { type OwnSetting, SETTING_NAMES } from './setting-text.js'
import * as styles from './settings-form.module.css'

/** How much to store about the senders of requests. */
const CONTEXTS = [
  ['default', 'As set for the service'],
  ['full', 'Browser, device and place'],
  ['device', 'Browser and device'],
  ['off', 'Nothing'],
] as const

const VIEWS = [
  ['default', 'Automatic: Web or Overview'],
  ...FIRST_VIEWS.map((view) => [view, capitalize(view)] as const),
] as const

type OwnSettings = Pick<ProjectSettings, OwnSetting>

interface OwnFieldsProps {
  /** id of the project */
  id: string
  settings: OwnSettings
  onChange: (fields: Partial<OwnSettings>) => void
}

/** The name of a project, and how the page shows it. */
export function OwnFields({ id, settings, onChange }: OwnFieldsProps) {
  const { name, timezone, week_start, first_view, currency, number_format, context } = settings
  return (
    <div class={styles.fields}>
      <TextField
        label={SETTING_NAMES.name}
        value={name ?? ''}
        placeholder={id}
        maxLength={100}
        onChange={(text) => onChange({ name: text.trim() === '' ? null : text })}
      />
      <Combobox
        label={SETTING_NAMES.timezone}
        isStrict
        value={timezone}
        suggest={async (text) => suggestTimeZones(text)}
        onChange={(zone) => onChange({ timezone: zone || DEFAULT_SETTINGS.timezone })}
      />
      <Select
        label={SETTING_NAMES.week_start}
        value={week_start}
        options={WEEKS}
        onChange={(day) => onChange({ week_start: day })}
      />
      <Select
        label={SETTING_NAMES.first_view}
        value={first_view ?? 'default'}
        options={VIEWS}
        onChange={(view) => onChange({ first_view: view === 'default' ? null : view })}
      />
      <TextField
        label={SETTING_NAMES.currency}
        value={currency ?? ''}
        placeholder="None; three letters, such as EUR"
        maxLength={3}
        onChange={(text) => onChange({ currency: text.trim().toUpperCase() || null })}
      />
      <Select
        label={SETTING_NAMES.number_format}
        value={number_format}
        options={NUMBER_FORMATS.map((example) => [example, example] as const)}
        onChange={(example) => onChange({ number_format: example })}
      />
      <Select
        label={SETTING_NAMES.context}
        value={context ?? 'default'}
        options={CONTEXTS}
        onChange={(mode) => onChange({ context: mode === 'default' ? null : mode })}
      />
    </div>
  )
}
