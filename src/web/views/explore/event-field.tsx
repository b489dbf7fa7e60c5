import { SESSION } from '../../../contract/question-schemas.js'
import type { Definition } from '../../../contract/questions.js'
import { useRowKeys } from '../../hooks/use-row-keys.js'
import type { Choice } from '../../lib/choices.js'
import { AddButton } from '../../ui/add-button.js'
import { Combobox } from '../../ui/combobox.js'
import { RemoveButton } from '../../ui/remove-button.js'
import { useSuggestions } from '../suggestions.js'
import { useProblem } from './doubts.js'
import * as styles from './event-field.module.css'
import { FieldErrors } from './field-errors.js'
import { FilterEditor } from './filter-editor.js'

const ANY = 'Any event'
const SESSIONS: Choice = { value: SESSION, note: 'sessions', words: ['sessions', 'visits', 'visit'] }

interface EventFieldProps {
  label: string
  value: Definition['event']
  onChange: (event: Definition['event']) => void
  path: string
}

/** One event, any of several, or all events. */
function EventField({ label, value, onChange, path }: EventFieldProps) {
  const suggestions = useSuggestions()
  const all = typeof value === 'string' ? [value] : value
  const keys = useRowKeys(all)
  const findProblem = useProblem()
  const suggest = async (text: string) => {
    const matches = await suggestions.suggestEvents(text, [SESSIONS])
    const typed = text.trim().toLowerCase()
    if (!ANY.toLowerCase().startsWith(typed)) return matches
    const any = { value: ANY, note: 'all of them' }
    // An event whose name begins with the text comes first, because it is more likely to be meant.
    return typed === '' || typed === ANY.toLowerCase() ? [any, ...matches] : [...matches, any]
  }
  const change = (next: string[]) => {
    const [only = ''] = next
    onChange(next.length > 1 ? next : only)
  }
  return (
    <div>
      {all.map((event, i) => (
        <div key={keys[i]} class={styles.withButton}>
          <Combobox
            label={i === 0 ? label : `${label}, or`}
            hidesLabel
            value={event === '*' ? ANY : event}
            placeholder={i === 0 ? 'Choose an event' : 'or this event'}
            suggest={suggest}
            problem={findProblem(event)}
            onChange={(text) => {
              if (text === ANY || text === '*') onChange('*')
              else change(all.with(i, text))
            }}
          />
          {all.length > 1 && (
            <RemoveButton
              label={`Remove ${event || 'this event'}`}
              onClick={() => change(all.filter((_, other) => other !== i))}
            />
          )}
        </div>
      ))}
      {all[0] !== '*' && all.at(-1) !== '' && (
        <AddButton onClick={() => change([...all, ''])}>or another event</AddButton>
      )}
      <FieldErrors path={`${path}/event`} />
    </div>
  )
}

interface DefinitionFieldProps<T extends Definition> {
  label: string
  value: T
  onChange: (value: T) => void
  path: string
}

/** An event with its filters. */
export function DefinitionField<T extends Definition>({ label, value, onChange, path }: DefinitionFieldProps<T>) {
  return (
    <>
      <EventField label={label} value={value.event} path={path} onChange={(event) => onChange({ ...value, event })} />
      <FilterEditor
        label={`Filters of ${label.toLowerCase()}`}
        value={value.where}
        events={listEvents([value])}
        path={`${path}/where`}
        onChange={(where) => onChange({ ...value, where })}
      />
    </>
  )
}

/** The names of the events whose properties and values are suggested; empty for all events. */
export function listEvents(definitions: readonly Definition[]): string[] {
  const names = definitions.flatMap(({ event }) => event).filter((name) => name !== '')
  return names.includes('*') ? [] : [...new Set(names)]
}
