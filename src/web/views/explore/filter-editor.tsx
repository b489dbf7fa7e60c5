import { useId, useState } from 'preact/hooks'
import { formatExactJson } from '../../../contract/exact-json.js'
import { type Filter, OPERATORS } from '../../../contract/filters.js'
import { OPERATOR_LABELS } from '../../../contract/labels.js'
import { useRowKeys } from '../../hooks/use-row-keys.js'
import {
  type Condition,
  changeOperator,
  type Group,
  isFilter,
  isGroup,
  type Joint,
  type Operator,
  toFilter,
  toGroup,
} from '../../lib/filters.js'
import { AddButton } from '../../ui/add-button.js'
import * as formStyles from '../../ui/form.module.css'
import * as pageHeaderStyles from '../../ui/page-header.module.css'
import { RemoveButton } from '../../ui/remove-button.js'
import { Select } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import * as eventFieldStyles from './event-field.module.css'
import { FieldErrors } from './field-errors.js'
import * as styles from './filter-editor.module.css'
import { PropertyField } from './property-field.js'
import { ValuesField } from './values-field.js'

const NEW: Condition = ['is', '', []]
const JOINTS = [
  ['and', 'All of these'],
  ['or', 'Any of these'],
] as const
const OPERATOR_OPTIONS = Object.entries(OPERATOR_LABELS) as [Operator, string][]

interface FilterEditorProps {
  label: string
  value: Filter | null
  onChange: (filter: Filter | null) => void
  /** the events that are filtered, for suggestions; empty for all */
  events: readonly string[]
  path: string
}

/** A filter as rows of conditions; if it is too complex for that, as JSON. */
export function FilterEditor({ label, value, onChange, events, path }: FilterEditorProps) {
  const group = toGroup(value)
  return (
    <fieldset class={styles.filters}>
      <legend class={textStyles.hidden}>{label}</legend>
      {group ? (
        <Rows group={group} events={events} canGroup onChange={(next) => onChange(toFilter(next))} />
      ) : (
        <FilterText value={value} onChange={onChange} />
      )}
      <FieldErrors path={path} />
    </fieldset>
  )
}

interface RowsProps {
  group: Group
  events: readonly string[]
  canGroup?: boolean
  onChange: (group: Group) => void
}

function Rows({ group, events, canGroup = false, onChange }: RowsProps) {
  const { joint, rows } = group
  const keys = useRowKeys(rows.map((row) => JSON.stringify(row)))
  const set = (next: Group['rows']) => onChange({ joint, rows: next })
  return (
    <>
      {rows.length > 1 && (
        <Select<Joint>
          label="Which have to match"
          hidesLabel
          value={joint}
          options={JOINTS}
          onChange={(next) => onChange({ joint: next, rows })}
        />
      )}
      {rows.map((row, i) => {
        const remove = () => set(rows.filter((_, other) => other !== i))
        if (!isGroup(row)) {
          const change = (next: Condition) => set(rows.with(i, next))
          return <ConditionRow key={keys[i]} condition={row} events={events} onChange={change} onRemove={remove} />
        }
        const change = (next: Group) => (next.rows.length > 0 ? set(rows.with(i, next)) : remove())
        return (
          <fieldset key={keys[i]} class={styles.filterGroup} aria-label="Group of filters">
            <Rows group={row} events={events} onChange={change} />
          </fieldset>
        )
      })}
      <div class={pageHeaderStyles.actions}>
        <AddButton onClick={() => set([...rows, NEW])}>+ Filter</AddButton>
        {canGroup && rows.length > 0 && (
          <AddButton onClick={() => set([...rows, { joint: joint === 'and' ? 'or' : 'and', rows: [NEW, NEW] }])}>
            + Group
          </AddButton>
        )}
      </div>
    </>
  )
}

interface ConditionRowProps {
  condition: Condition
  events: readonly string[]
  onChange: (condition: Condition) => void
  onRemove: () => void
}

function ConditionRow({ condition, events, onChange, onRemove }: ConditionRowProps) {
  const [operator, field] = condition
  return (
    <fieldset class={`${styles.condition} ${eventFieldStyles.withButton}`} aria-label="Filter">
      <PropertyField
        label="Field"
        hidesLabel
        value={field}
        events={events}
        onChange={(next) => onChange([operator, next, ...condition.slice(2)] as Condition)}
      />
      <Select<Operator>
        label="Comparison"
        hidesLabel
        value={operator}
        options={OPERATOR_OPTIONS}
        onChange={(next) => onChange(changeOperator(condition, next))}
      />
      {OPERATORS[operator] !== 'nothing' && <ValuesField condition={condition} events={events} onChange={onChange} />}
      <RemoveButton label="Remove this filter" onClick={onRemove} />
    </fieldset>
  )
}

/** A filter as JSON. */
function FilterText({ value, onChange }: Pick<FilterEditorProps, 'value' | 'onChange'>) {
  const id = useId()
  const [error, setError] = useState('')
  const change = (text: string) => {
    try {
      const next = text.trim() === '' ? null : JSON.parse(text)
      if (next !== null && !isFilter(next)) throw new Error('no filter')
      setError('')
      onChange(next)
    } catch {
      setError('Not a valid filter.')
    }
  }
  return (
    <>
      <label for={id}>Filter with deeper groups, as JSON</label>
      <textarea
        id={id}
        class={formStyles.editor}
        rows={5}
        spellcheck={false}
        onChange={(event) => change(event.currentTarget.value)}
        value={formatExactJson(value, 1)}
      />
      {error && <p class={formStyles.error}>{error}</p>}
    </>
  )
}
