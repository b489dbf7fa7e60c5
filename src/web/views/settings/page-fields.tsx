import { useId, useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import { PAGE_PLACES } from '../../../contract/page-fields.js'
import { DEFAULT_SETTINGS, type ProjectSettings } from '../../../contract/project-settings.js'
import { isSameJson } from '../../../contract/same-json.js'
import { formatField, parseField } from '../../lib/fields.js'
import { chooseSessions } from '../../lib/project-settings.js'
import { Button } from '../../ui/button.js'
import { Select } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import { TextField } from '../../ui/text-field.js'
import { PAGE_FIELD_NAMES, type PageSetting, VISIT_NAMES } from './setting-text.js'
import * as styles from './settings-form.module.css'

const WAYS = [
  ['id', 'By session ids'],
  ['gap', 'By pauses'],
] as const

type PageSettings = Pick<ProjectSettings, PageSetting>

interface PageFieldsProps {
  settings: PageSettings
  /** the properties that details of the page are taken from */
  fields: ProjectSettings['page_fields']
  onChange: (settings: Partial<PageSettings>) => void
  onFieldsChange: (fields: Partial<ProjectSettings['page_fields']>) => void
}

/** The definitions of visits and page views, and the properties with details of the page. */
export function PageFields({ settings: { sessions, page_views }, fields, onChange, onFieldsChange }: PageFieldsProps) {
  return (
    <>
      <div class={styles.fields}>
        <Select
          label="Tell visits apart"
          value={sessions === 'id' ? 'id' : 'gap'}
          options={WAYS}
          onChange={(way) => onChange({ sessions: chooseSessions(way) })}
        />
        {sessions !== 'id' && (
          <div>
            <TextField
              label={VISIT_NAMES.sessions}
              value={sessions.gap}
              placeholder="30m, or 2h"
              maxLength={20}
              onChange={(gap) => onChange({ sessions: { ...sessions, gap: gap.trim() } })}
            />
            {sessions.where && (
              <p class={textStyles.hint}>Of the events that match {formatExactJson(sessions.where)}</p>
            )}
          </div>
        )}
        <Lines
          label={VISIT_NAMES.page_views}
          hint="Names of events, one per line."
          items={page_views}
          parse={String}
          format={String}
          onChange={(names) => onChange({ page_views: names })}
        />
      </div>
      <details>
        <summary>Properties of pages</summary>
        <p class={textStyles.hint}>One property per line. The first one with a text value counts.</p>
        <div class={styles.fields}>
          {PAGE_PLACES.map((name) => (
            <Lines
              key={name}
              label={PAGE_FIELD_NAMES[name]}
              items={fields[name]}
              parse={parseField}
              format={formatField}
              onChange={(items) => onFieldsChange({ [name]: items })}
            />
          ))}
        </div>
      </details>
      <Button
        look="link"
        onClick={() => {
          const { sessions, page_views, page_fields } = DEFAULT_SETTINGS
          onChange({ sessions, page_views })
          onFieldsChange(page_fields)
        }}
      >
        Use the defaults
      </Button>
    </>
  )
}

interface LinesProps<Item> {
  label: string
  hint?: string
  items: readonly Item[]
  parse: (line: string) => Item
  format: (item: Item) => string
  onChange: (items: Item[]) => void
}

/** A list, one line each. */
function Lines<Item>({ label, hint, items, parse, format, onChange }: LinesProps<Item>) {
  const id = useId()
  const [text, setText] = useState('')
  // Show the text as typed, because lines are incomplete while the user types, unless the list was changed elsewhere.
  const shown = isSameJson(parseLines(text, parse), items) ? text : items.map(format).join('\n')
  return (
    <div>
      <label for={id}>{label}</label>
      <textarea
        id={id}
        rows={Math.min(10, Math.max(3, items.length))}
        value={shown}
        spellcheck={false}
        onInput={(event) => {
          setText(event.currentTarget.value)
          onChange(parseLines(event.currentTarget.value, parse))
        }}
      />
      {hint && <p class={textStyles.hint}>{hint}</p>}
    </div>
  )
}

function parseLines<Item>(text: string, parse: (line: string) => Item): Item[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(parse)
}
