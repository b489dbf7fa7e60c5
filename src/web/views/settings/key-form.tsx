import { useId, useState } from 'preact/hooks'
import type { KeyDraft } from '../../api/keys.js'
import { useAction } from '../../lib/use-action.js'
import * as buttonStyles from '../../ui/button.module.css'
import { Dialog } from '../../ui/dialog.js'
import * as formStyles from '../../ui/form.module.css'
import { Failure } from '../../ui/notice.js'
import { Select } from '../../ui/select.js'
import * as textStyles from '../../ui/text.module.css'
import { hasOrigins, type KeyKind, KIND_HINTS } from './key-text.js'
import * as styles from './keys.module.css'

/** The limit of the service. */
const MAX_LABEL = 100
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
  const { error, isBusy, run } = useAction()
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    void run(async () => {
      await onSave({
        kind,
        label: label.trim(),
        origins: hasOrigins(kind) ? splitOrigins(origins) : [],
        events_only: kind === 'write' && isEventsOnly,
      })
      onClose()
    })
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} class={styles.form}>
        {isNew && (
          <>
            <Select label="Kind" value={kind} options={KIND_OPTIONS} onChange={setKind} />
            <p class={textStyles.hint}>{KIND_HINTS[kind]}</p>
          </>
        )}
        <label for={`${id}-label`}>Label</label>
        <input
          id={`${id}-label`}
          class={formStyles.full}
          value={label}
          maxLength={MAX_LABEL}
          placeholder="What uses it, such as Checkout server"
          autofocus
          onInput={(event) => setLabel(event.currentTarget.value)}
        />
        {hasOrigins(kind) && (
          <>
            <label for={`${id}-origins`}>Only on pages of these sites, one per line</label>
            <textarea
              id={`${id}-origins`}
              rows={3}
              value={origins}
              spellcheck={false}
              placeholder="https://shop.example"
              aria-describedby={`${id}-origins-hint`}
              onInput={(event) => setOrigins(event.currentTarget.value)}
            />
            <p id={`${id}-origins-hint`} class={textStyles.hint}>
              Leave it empty for any page, and for apps and servers.
            </p>
          </>
        )}
        {kind === 'write' && (
          <label class={formStyles.check}>
            <input
              type="checkbox"
              checked={isEventsOnly}
              onChange={(event) => setEventsOnly(event.currentTarget.checked)}
            />
            Events only: it cannot change users
          </label>
        )}
        {error && <Failure error={error} />}
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class={buttonStyles.primary} disabled={isBusy}>
            {action}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}

/** Splits a text into origins, and removes their paths: browsers send none, so a pasted address would never match. */
function splitOrigins(text: string): string[] {
  const lines = text.split(/[\s,]+/).filter((line) => line !== '')
  return lines.map((line) => (URL.canParse(line) && /^https?:/i.test(line) ? new URL(line).origin : line))
}
