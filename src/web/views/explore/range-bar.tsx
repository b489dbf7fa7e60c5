import { useId } from 'preact/hooks'
import type { Interval } from '../../../contract/questions.js'
import { listTimeZones } from '../../lib/intl.js'
import { type Display, type Draft, PRESETS, type Preset } from '../../lib/question.js'
import { addDays, formatDateIn, isDate, resolveRange } from '../../lib/range.js'
import { Combobox } from '../../ui/combobox.js'
import { Select } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import { FieldErrors } from './field-errors.js'
import * as styles from './range-bar.module.css'

const PRESET_LABELS: Record<Preset, string> = {
  today: 'Today',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
  '12m': 'Last 12 months',
}
const RANGES = [...PRESETS.map((preset) => [preset, PRESET_LABELS[preset]] as const), ['custom', 'Dates …'] as const]
const INTERVALS: readonly (readonly [Interval, string])[] = [
  ['hour', 'By hour'],
  ['day', 'By day'],
  ['week', 'By week'],
  ['month', 'By month'],
  ['none', 'In all'],
]
const WEEKS = [
  ['monday', 'Monday'],
  ['sunday', 'Sunday'],
] as const

interface RangeBarProps {
  draft: Draft
  display: Display
  onChange: (draft: Draft, display: Display) => void
}

/** The time range and interval of a question. */
export function RangeBar({ draft, display, onChange }: RangeBarProps) {
  const isCustom = draft.from !== undefined || draft.to !== undefined
  const choose = (range: Preset | 'custom') => {
    if (range === 'custom') onChange({ ...draft, ...resolveRange(draft, display, Date.now()) }, display)
    else {
      const { from: _, to: __, ...rest } = draft
      onChange(rest as Draft, { ...display, range })
    }
  }
  return (
    <div class={styles.range}>
      <Select label="Time" value={isCustom ? 'custom' : (display.range ?? '30d')} options={RANGES} onChange={choose} />
      {isCustom && <Dates draft={draft} display={display} onChange={onChange} />}
      {draft.kind === 'series' && (
        <Select
          label="Steps"
          value={draft.interval}
          options={INTERVALS}
          onChange={(interval) => onChange({ ...draft, interval }, display)}
        />
      )}
      <details class={styles.more}>
        <summary>
          {draft.timezone}
          <span class={textStyles.hidden}>, time zone and weeks</span>
        </summary>
        <div class={styles.moreFields}>
          <Combobox
            label="Time zone"
            isStrict
            value={draft.timezone}
            suggest={async (text) => suggestTimeZones(text)}
            onChange={(timezone) => onChange({ ...draft, timezone: timezone || 'UTC' }, display)}
          />
          <Select
            label="Weeks begin on"
            value={draft.week_start}
            options={WEEKS}
            onChange={(week_start) => onChange({ ...draft, week_start }, display)}
          />
        </div>
      </details>
      <FieldErrors path="/timezone" />
      <FieldErrors path="/from" />
      <FieldErrors path="/to" />
    </div>
  )
}

/** The first and last day of the range. */
function Dates({ draft, display, onChange }: RangeBarProps) {
  const { from, to } = resolveRange(draft, display, Date.now())
  const ids = [useId(), useId()]
  const toDate = (value: string | number) => {
    return isDate(value) ? value : formatDateIn(draft.timezone, new Date(value).getTime() || Date.now())
  }
  // Users pick an inclusive end date; the service takes an exclusive one.
  const last = isDate(to) ? addDays(to, -1) : toDate(to)
  return (
    <>
      <div>
        <label for={ids[0]}>From</label>
        <input
          id={ids[0]}
          type="date"
          value={toDate(from)}
          onChange={({ currentTarget: { value } }) => value && onChange({ ...draft, from: value, to }, display)}
        />
      </div>
      <div>
        <label for={ids[1]}>To</label>
        <input
          id={ids[1]}
          type="date"
          value={last}
          onChange={({ currentTarget: { value } }) => {
            if (value) onChange({ ...draft, from, to: addDays(value, 1) }, display)
          }}
        />
      </div>
    </>
  )
}

function suggestTimeZones(text: string): { value: string }[] {
  const query = text.toLowerCase().replaceAll(' ', '_')
  return ['UTC', ...listTimeZones()]
    .filter((zone, i, all) => all.indexOf(zone) === i && zone.toLowerCase().includes(query))
    .slice(0, 60)
    .map((value) => ({ value }))
}
