import { useId, useState } from 'preact/hooks'
import { MAX_KEY_LABEL } from '../../../contract/limits.js'
import type { KeyDraft } from '../../api/keys.js'
import { ActionDialog } from '../../ui/dialog.js'
import { Select } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import { Checkbox, TextField } from '../../ui/text-field.js'
import { hasOrigins, type KeyKind, KIND_HINTS } from './key-text.js'

const LABELS = { label: 'Label', origins: 'Only on pages of these sites' }
const KIND_OPTIONS: readonly (readonly [KeyKind, string])[] = [
  ['write', 'Write'],
  ['read', 'Read'],
  ['secret', 'Secret'],
  ['public', 'Public'],
]

interface KeyFormProps {
  title: string
  /** text of the button */
  action: string
  initial: KeyDraft
  /** whether the kind can be chosen */
  isNew?: boolean
  /** the form stays open if it fails */
  onSave: (draft: KeyDraft) => Promise<void>
  onClose: () => void
}

/** A dialog for the kind, the label and the limits of a key. */
export function KeyForm({ title, action, initial, isNew = false, onSave, onClose }: KeyFormProps) {
  const id = useId()
  const [kind, setKind] = useState(initial.kind)
  const [label, setLabel] = useState(initial.label)
  const [origins, setOrigins] = useState(initial.origins.join('\n'))
  const [isEventsOnly, setEventsOnly] = useState(initial.events_only)
  const save = () =>
    onSave({
      kind,
      label: label.trim(),
      origins: hasOrigins(kind) ? splitOrigins(origins) : [],
      events_only: kind === 'write' && isEventsOnly,
    })
  return (
    <ActionDialog title={title} action={action} onConfirm={save} labels={LABELS} isHarmless onClose={onClose}>
      {isNew && (
        <>
          <Select label="Kind" value={kind} options={KIND_OPTIONS} onChange={setKind} />
          <p class={textStyles.hint}>{KIND_HINTS[kind]}</p>
        </>
      )}
      <TextField
        label={LABELS.label}
        value={label}
        maxLength={MAX_KEY_LABEL}
        placeholder="What uses it, such as Checkout server"
        autofocus
        onChange={setLabel}
      />
      {hasOrigins(kind) && (
        <>
          <label for={id}>{LABELS.origins}, one per line</label>
          <textarea
            id={id}
            rows={3}
            value={origins}
            spellcheck={false}
            placeholder="https://shop.example"
            aria-describedby={`${id}-hint`}
            onInput={(event) => setOrigins(event.currentTarget.value)}
          />
          <p id={`${id}-hint`} class={textStyles.hint}>
            Leave it empty for any page, and for apps and servers.
          </p>
        </>
      )}
      {kind === 'write' && (
        <Checkbox label="Events only: it cannot change users" checked={isEventsOnly} onChange={setEventsOnly} />
      )}
    </ActionDialog>
  )
}

/** Splits a text into origins, and removes their paths: browsers send none, so a pasted address would never match. */
function splitOrigins(text: string): string[] {
  const lines = text.split(/[\s,]+/).filter((line) => line !== '')
  return lines.map((line) => (URL.canParse(line) && /^https?:/i.test(line) ? new URL(line).origin : line))
}
