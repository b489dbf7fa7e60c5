import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { findFirstEvent } from '../api/answers.js'
import { useLoaded } from '../hooks/use-loaded.js'
import { usePoll } from '../hooks/use-poll.js'
import { formatPeriod } from '../lib/answer-labels.js'
import { suggestTimeZones } from '../lib/intl.js'
import { getProjectSettings } from '../lib/project-settings.js'
import {
  changeBound,
  formatBounds,
  type Moment,
  PRESETS,
  type Preset,
  type RangeChoice,
  resolveRange,
  USUAL_PRESET,
} from '../lib/range.js'
import { Button } from '../ui/button.js'
import { Combobox } from '../ui/combobox.js'
import { Popover } from '../ui/popover.js'
import { Select } from '../ui/select.js'
import * as textStyles from '../ui/text.module.css'
import * as styles from './range-fields.module.css'

const PRESET_LABELS: Record<Preset, string> = {
  today: 'Today',
  yesterday: 'Yesterday',
  this_week: 'This week',
  last_week: 'Last week',
  this_month: 'This month',
  last_month: 'Last month',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
  this_year: 'This year',
  '12m': 'Last 12 months',
  all: 'All time',
}
const CUSTOM = 'custom'
const RANGES = [
  ...PRESETS.map((preset) => [preset, PRESET_LABELS[preset]] as const),
  [CUSTOM, 'Custom range…'] as const,
]
export const WEEKS = [
  ['monday', 'Monday'],
  ['sunday', 'Sunday'],
] as const

const MINUTE_MS = 60_000

/**
 * The time that relative ranges depend on; loads the first event's time if the range begins there. Follows the clock,
 * so that dates stay current while the page is open.
 */
export function useMoment({ range, from }: Partial<RangeChoice>): Moment {
  const [now, setNow] = useState(Date.now)
  usePoll(() => setNow(Date.now()), MINUTE_MS)
  const { value } = useLoaded(range === 'all' && from === undefined ? 'first event' : null, findFirstEvent)
  return { now, first: value }
}

interface RangeFieldsProps {
  choice: RangeChoice
  moment: Moment
  onChange: (choice: RangeChoice) => void
  /** fields next to the range */
  children?: ComponentChildren
}

/** A time range, with its time zone and the first day of weeks. */
export function RangeFields({ choice, moment, onChange, children }: RangeFieldsProps) {
  const { from, to, range, timezone, week_start } = choice
  const isCustom = from !== undefined || to !== undefined
  const resolved = resolveRange(choice, moment)
  const isUnknown = !isCustom && range === 'all' && moment.first === null
  const select = (next: Preset | typeof CUSTOM) => {
    onChange({ timezone, week_start, ...(next === CUSTOM ? resolved : { range: next }) })
  }
  return (
    <>
      <Select
        label="Date range"
        value={isCustom ? CUSTOM : (range ?? USUAL_PRESET)}
        options={RANGES}
        onChange={select}
      />
      {isCustom && <Dates choice={{ ...choice, ...resolved }} onChange={onChange} />}
      {children}
      <Popover
        summary={
          <>
            {!isCustom && !isUnknown && `${formatPeriod({ ...resolved, timezone })} · `}
            {timezone}
            <span class={textStyles.hidden}>, time zone and weeks</span>
          </>
        }
      >
        <Combobox
          label="Time zone"
          isStrict
          value={timezone}
          suggest={async (text) => suggestTimeZones(text)}
          onChange={(next) => onChange({ ...choice, timezone: next || getProjectSettings().timezone })}
        />
        <Select
          label="Weeks begin on"
          value={week_start}
          options={WEEKS}
          onChange={(next) => onChange({ ...choice, week_start: next })}
        />
      </Popover>
    </>
  )
}

interface DatesProps {
  choice: RangeChoice & Required<Pick<RangeChoice, 'from' | 'to'>>
  onChange: (choice: RangeChoice) => void
}

/** The bounds of a range: its first and last day, or times. */
function Dates({ choice, onChange }: DatesProps) {
  const { timezone } = choice
  const bounds = formatBounds(choice, timezone)
  const change = (bound: 'from' | 'to', typed: string) => {
    const range = changeBound(choice, bound, typed, timezone)
    if (range) onChange({ ...choice, ...range })
  }
  return (
    <>
      <DateField label="From" value={bounds.from} onChange={(typed) => change('from', typed)} />
      <DateField label="To" value={bounds.to} onChange={(typed) => change('to', typed)} />
    </>
  )
}

interface DateFieldProps {
  label: string
  value: string
  /** called with any text */
  onChange: (typed: string) => void
}

const DATE_LENGTH = 'YYYY-MM-DD'.length

/**
 * A date, with a time if the range has one, as a text field, because a date field would follow the language of the
 * browser. A button opens the calendar, which keeps the time.
 */
function DateField({ label, value, onChange }: DateFieldProps) {
  const id = useId()
  const [text, setText] = useState(value)
  const calendar = useRef<HTMLInputElement>(null)
  useEffect(() => setText(value), [value])
  const change = (next: string) => {
    setText(next)
    const typed = next.trim()
    if (typed !== value) onChange(typed)
  }
  return (
    <div>
      <label for={id}>{label}</label>
      <span class={styles.date}>
        <input
          id={id}
          value={text}
          size={Math.max(DATE_LENGTH, value.length)}
          placeholder="YYYY-MM-DD"
          autocomplete="off"
          onInput={(event) => change(event.currentTarget.value)}
          onBlur={() => setText(value)}
        />
        <Button
          look="plain"
          aria-label={`Choose ${label.toLowerCase()} in a calendar`}
          onClick={() => calendar.current?.showPicker()}
        >
          ▾
        </Button>
        <input
          ref={calendar}
          type="date"
          class={styles.calendar}
          tabIndex={-1}
          aria-hidden="true"
          value={value.slice(0, DATE_LENGTH)}
          onChange={(event) => change(event.currentTarget.value + value.slice(DATE_LENGTH))}
        />
      </span>
    </div>
  )
}
