import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { findFirstEvent } from '../api/answers.js'
import { useLoaded } from '../hooks/use-loaded.js'
import { usePoll } from '../hooks/use-poll.js'
import { formatPeriod } from '../lib/answer-labels.js'
import { suggestTimeZones } from '../lib/intl.js'
import { getProjectSettings } from '../lib/project-settings.js'
import {
  addDays,
  findDays,
  isDate,
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

/** The first and the last day of a range. The service takes the day after the last one. */
function Dates({ choice, onChange }: DatesProps) {
  const { from, to, timezone } = choice
  const days = findDays(choice, timezone) ?? { first: '', last: '' }
  return (
    <>
      <DateField
        label="From"
        value={days.first}
        onChange={(first) => onChange({ ...choice, from: first, to: first <= days.last ? to : addDays(first, 1) })}
      />
      <DateField
        label="To"
        value={days.last}
        onChange={(last) => onChange({ ...choice, from: days.first <= last ? from : last, to: addDays(last, 1) })}
      />
    </>
  )
}

interface DateFieldProps {
  label: string
  value: string
  onChange: (date: string) => void
}

/**
 * A date as a text field, because a date field would follow the language of the browser. A button opens the calendar.
 */
function DateField({ label, value, onChange }: DateFieldProps) {
  const id = useId()
  const [text, setText] = useState(value)
  const calendar = useRef<HTMLInputElement>(null)
  useEffect(() => setText(value), [value])
  const change = (next: string) => {
    setText(next)
    if (isDate(next) && next !== value) onChange(next)
  }
  return (
    <div>
      <label for={id}>{label}</label>
      <span class={styles.date}>
        <input
          id={id}
          value={text}
          size={10}
          placeholder="YYYY-MM-DD"
          autocomplete="off"
          onInput={(event) => change(event.currentTarget.value.trim())}
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
          value={value}
          onChange={(event) => change(event.currentTarget.value)}
        />
      </span>
    </div>
  )
}
