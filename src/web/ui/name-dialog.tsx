import { useId, useState } from 'preact/hooks'
import { Dialog } from '../../ui/dialog.js'
import { Failure } from '../../ui/notice.js'

interface NameDialogProps {
  title: string
  /** on the button */
  action: string
  /** what is proposed */
  name?: string
  /** what is done with the name; a failure is shown, and the dialog stays */
  onName: (name: string) => Promise<void>
  onClose: () => void
}

/** Asks how something is to be called. */
export function NameDialog({ title, action, name: proposed = '', onName, onClose }: NameDialogProps) {
  const id = useId()
  const [name, setName] = useState(proposed)
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      await onName(name.trim())
      onClose()
    } catch (failure) {
      setError(failure as Error)
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} class="name-form">
        <label for={id}>Name</label>
        <input
          id={id}
          value={name}
          maxLength={255}
          required
          autofocus
          onInput={(event) => setName(event.currentTarget.value)}
        />
        {error && <Failure error={error} />}
        <footer>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy || !name.trim()}>
            {action}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
