import { useState } from 'preact/hooks'
import { ActionDialog } from './dialog.js'
import { NameField } from './text-field.js'

/** An action that takes a name; the dialog stays open if it fails. */
interface NameAction {
  /** text of the button */
  text: string
  act: (name: string) => Promise<void>
}

interface NameDialogProps {
  title: string
  /** the initial name */
  name?: string
  action: NameAction
  /** an alternative action */
  other?: NameAction | undefined
  onClose: () => void
}

/** Asks for a name. */
export function NameDialog({ title, name: proposed = '', action, other, onClose }: NameDialogProps) {
  const [text, setText] = useState(proposed)
  const name = text.trim()
  return (
    <ActionDialog
      title={title}
      action={action.text}
      onConfirm={() => action.act(name)}
      other={other && { text: other.text, act: () => other.act(name) }}
      isBlocked={name === ''}
      isHarmless
      onClose={onClose}
    >
      <NameField label="Name" value={text} autofocus onChange={setText} />
    </ActionDialog>
  )
}
