import { useState } from 'preact/hooks'
import type { ListedKey } from '../../../contract/key-schemas.js'
import { isSameJson } from '../../../contract/same-json.js'
import { changeKey, createKey, type KeyDraft, revokeKey, rotateKey } from '../../api/keys.js'
import { BASE_URL } from '../../lib/base-url.js'
import { formatDaysAgo, formatTime } from '../../lib/format.js'
import { scriptLine } from '../../lib/script-line.js'
import { Button } from '../../ui/button.js'
import { Code } from '../../ui/code.js'
import { ActionDialog, Dialog } from '../../ui/dialog.js'
import { Select } from '../../ui/select.js'
import { KeyForm } from './key-form.js'
import { nameKey } from './key-text.js'
import * as styles from './keys.module.css'

/** A new key, which is shown once. */
export interface ShownKey {
  text: string
  made: ListedKey
  /** the key that it replaces */
  replaced: ListedKey | null
}

interface DialogProps {
  /** called once the change is made, with the key that it made */
  onDone: (made: ShownKey | null) => void
  onClose: () => void
}

type ItemProps = DialogProps & { item: ListedKey }

const NEW: KeyDraft = { kind: 'write', label: '', origins: [], events_only: false }
/** How long a replaced key stays valid. */
const GRACES = [
  ['1h', 'for another hour'],
  ['24h', 'for another day'],
  ['7d', 'for another week'],
  ['30d', 'for another 30 days'],
  ['0', 'not at all'],
] as const

/** Asks for the fields of a new key, and creates it. */
export function CreateDialog({ onDone, onClose }: DialogProps) {
  const create = async (draft: KeyDraft) => {
    const { apiKey: text, key } = await createKey(draft)
    onDone({ text, made: key, replaced: null })
  }
  return <KeyForm title="Create a key" action="Create key" initial={NEW} isNew onSave={create} onClose={onClose} />
}

/** Changes the label and the limits of a key. Sends only what differs, because others may change the rest meanwhile. */
export function EditDialog({ item, onDone, onClose }: ItemProps) {
  const save = async ({ label, origins, events_only }: KeyDraft) => {
    await changeKey(item.id, {
      ...(label !== item.label && { label }),
      ...(!isSameJson(origins, item.origins) && { origins }),
      ...(events_only !== item.events_only && { events_only }),
    })
    onDone(null)
  }
  return <KeyForm title={`Edit ${nameKey(item)}`} action="Save" initial={item} onSave={save} onClose={onClose} />
}

/** Replaces a key, after asking how long the old one stays valid. */
export function RotateDialog({ item, onDone, onClose }: ItemProps) {
  const [grace, setGrace] = useState<(typeof GRACES)[number][0]>('24h')
  const rotate = async () => {
    const { apiKey: text, key, replaced } = await rotateKey(item.id, grace)
    onDone({ text, made: key, replaced })
  }
  return (
    <ActionDialog title={`Rotate ${nameKey(item)}?`} action="Rotate key" onConfirm={rotate} onClose={onClose}>
      <p>
        This creates a new key with the same rights and label, and shows it once. Replace the old key wherever it is
        used while it still works.
      </p>
      <Select label="The old key works" value={grace} options={GRACES} onChange={setGrace} />
      {item.current && grace === '0' && <p class={styles.ending}>{SIGNED_IN_WITH_IT}</p>}
    </ActionDialog>
  )
}

const SIGNED_IN_WITH_IT = 'You are signed in with this key, so you will be signed out.'

/** Revokes a key after a confirmation. */
export function RevokeDialog({ item, onDone, onClose }: ItemProps) {
  const { id, last_used, current } = item
  const revoke = async () => {
    await revokeKey(id)
    onDone(null)
  }
  return (
    <ActionDialog title={`Revoke ${nameKey(item)}?`} action="Revoke key" onConfirm={revoke} onClose={onClose}>
      <p>
        Requests with <code>{id}</code> are refused within 10 seconds, and the key cannot be restored. To switch to a
        new key without a gap, rotate it instead.
      </p>
      <p>{last_used === null ? 'It was never used.' : `It was last used ${formatDaysAgo(last_used)}.`}</p>
      {current && <p class={styles.ending}>{SIGNED_IN_WITH_IT}</p>}
    </ActionDialog>
  )
}

/** Shows a new key, once. */
export function NewKeyDialog({ text, made, replaced, onClose }: ShownKey & { onClose: () => void }) {
  return (
    <Dialog title={`Your new ${made.kind} key`} onClose={onClose}>
      <p>
        <strong>Store it now: it is shown only this once.</strong>
      </p>
      <div class={styles.newKey}>
        <Code text={text} label="New key" />
      </div>
      {made.kind === 'write' && (
        <>
          <p>For a website, put this line into every page, before &lt;/head&gt;:</p>
          <Code text={scriptLine(BASE_URL, text)} label="The line for a website" />
        </>
      )}
      {replaced?.revoked_at != null && (
        <p>
          {replaced.state === 'revoked'
            ? `The old key, ${replaced.id}, no longer works.`
            : `The old key, ${replaced.id}, works until ${formatTime(replaced.revoked_at)}.`}
        </p>
      )}
      <footer>
        <Button look="primary" onClick={onClose}>
          I have stored it
        </Button>
      </footer>
    </Dialog>
  )
}
