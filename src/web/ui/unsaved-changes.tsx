import { useEffect, useState } from 'preact/hooks'
import { guardRoute } from '../lib/navigation.js'
import { ConfirmDialog } from './dialog.js'

/** Asks before somebody leaves what was changed and is not saved. @param what is left, such as “board” */
export function UnsavedChangesGuard({ what }: { what: string }) {
  const [leave, setLeave] = useState<(() => void) | null>(null)
  useEffect(() => {
    guardRoute((leave) => setLeave(() => leave))
    // The browser asks in its own words before it closes or reloads the page.
    const ask = (event: BeforeUnloadEvent) => event.preventDefault()
    addEventListener('beforeunload', ask)
    return () => {
      guardRoute(null)
      removeEventListener('beforeunload', ask)
    }
  }, [])
  if (!leave) return null
  return (
    <ConfirmDialog
      title="Leave without saving?"
      action="Discard changes"
      onConfirm={async () => leave()}
      onClose={() => setLeave(null)}
    >
      <p>What you changed of this {what} is not saved yet.</p>
    </ConfirmDialog>
  )
}
