import { useId } from 'preact/hooks'
import type { Interval } from '../../../contract/questions.js'
import { type Display, type Draft, PRESETS, type Preset } from '../../lib/question.js'
import { dateAfter, dateIn, isDate, rangeOf } from '../../lib/range.js'
import { Combobox } from '../../ui/combobox.js'
import { Choose } from '../../ui/select.js'
import { Faults } from './field-errors.js'

const PRESET_TEXTS: Record<Preset, string> = {
  today: 'Today',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
  '12m': 'Last 12 months',
}
const RANGES = [...PRESETS.map((preset) => [preset, PRESET_TEXTS[preset]] as const), ['custom', 'Dates …'] as const]
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

/** About which time a question is, and in which steps. */
export function RangeBar({ draft, display, onChange }: RangeBarProps) {
  const isCustom = draft.from !== undefined || draft.to !== undefined
  const choose = (range: Preset | 'custom') => {
    if (range === 'custom') onChange({ ...draft, ...rangeOf(draft, display, Date.now()) }, display)
    else {
      const { from: _, to: __, ...rest } = draft
      onChange(rest as Draft, { ...display, range })
    }
  }
  return (
    <div class="range">
      <Choose label="Time" value={isCustom ? 'custom' : (display.range ?? '30d')} options={RANGES} onChange={choose} />
      {isCustom && <Dates draft={draft} display={display} onChange={onChange} />}
      {draft.kind === 'series' && (
        <Choose
          label="Steps"
          value={draft.interval}
          options={INTERVALS}
          onChange={(interval) => onChange({ ...draft, interval }, display)}
        />
      )}
      <details class="more">
        <summary>
          {draft.timezone}
          <span class="hidden">, time zone and weeks</span>
        </summary>
        <div class="more-fields">
          <Combobox
            label="Time zone"
            value={draft.timezone}
            suggest={async (text) => zones(text)}
            onChange={(timezone) => onChange({ ...draft, timezone: timezone || 'UTC' }, display)}
          />
          <Choose
            label="Weeks begin on"
            value={draft.week_start}
            options={WEEKS}
            onChange={(week_start) => onChange({ ...draft, week_start }, display)}
          />
        </div>
      </details>
      <Faults path="/timezone" />
      <Faults path="/from" />
      <Faults path="/to" />
    </div>
  )
}

/** The first and the last day; or, where a question has them, exact times. */
function Dates({ draft, display, onChange }: RangeBarProps) {
  const { from, to } = rangeOf(draft, display, Date.now())
  const ids = [useId(), useId()]
  const dateOf = (value: string | number) => {
    return isDate(value) ? value : dateIn(draft.timezone, new Date(value).getTime() || Date.now())
  }
  // People mean the last day that counts; the service is told the day after.
  const last = isDate(to) ? dateAfter(to, -1) : dateOf(to)
  return (
    <>
      <div>
        <label for={ids[0]}>From</label>
        <input
          id={ids[0]}
          type="date"
          value={dateOf(from)}
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
            if (value) onChange({ ...draft, from, to: dateAfter(value, 1) }, display)
          }}
        />
      </div>
    </>
  )
}

function zones(text: string): { value: string }[] {
  const wanted = text.toLowerCase().replaceAll(' ', '_')
  return ['UTC', ...Intl.supportedValuesOf('timeZone')]
    .filter((zone, i, all) => all.indexOf(zone) === i && zone.toLowerCase().includes(wanted))
    .slice(0, 60)
    .map((value) => ({ value }))
}
