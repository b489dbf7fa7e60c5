import { useEffect, useState } from 'preact/hooks'
import { guardRoute } from '../lib/navigation.js'
import { ActionDialog } from './dialog.js'

/** Asks before the user leaves unsaved changes. @param what was changed, such as “board” */
export function UnsavedChangesGuard({ what }: { what: string }) {
  const [leave, setLeave] = useState<(() => void) | null>(null)
  useEffect(() => {
    guardRoute((leave) => setLeave(() => leave))
    // The browser shows its own prompt before it closes or reloads the page.
    const ask = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', ask)
    return () => {
      guardRoute(null)
      removeEventListener('beforeunload', ask)
    }
  }, [])
  if (!leave) return null
  return (
    <ActionDialog
      title="Leave without saving?"
      action="Discard changes"
      onConfirm={async () => leave()}
      onClose={() => setLeave(null)}
    >
      <p>Your changes to this {what} have not been saved.</p>
    </ActionDialog>
  )
}
