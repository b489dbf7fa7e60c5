import { useId, useState } from 'preact/hooks'
import { useAction } from '../lib/use-action.js'
import * as buttonStyles from './button.module.css'
import { Dialog } from './dialog.js'
import * as formStyles from './form.module.css'
import { Failure } from './notice.js'

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
  const id = useId()
  const [name, setName] = useState(proposed)
  const { error, isBusy, run } = useAction()
  const choose = ({ act }: NameAction) =>
    run(async () => {
      await act(name.trim())
      onClose()
    })
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    void choose(action)
  }
  const isBlocked = isBusy || !name.trim()
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} class={formStyles.nameForm}>
        <label for={id}>Name</label>
        <input
          id={id}
          value={name}
          maxLength={255}
          required
          autofocus
          onFocus={({ currentTarget }) => currentTarget.select()}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        {error && <Failure error={error} />}
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          {other && (
            <button type="button" disabled={isBlocked} onClick={() => choose(other)}>
              {other.text}
            </button>
          )}
          <button type="submit" class={buttonStyles.primary} disabled={isBlocked}>
            {action.text}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
