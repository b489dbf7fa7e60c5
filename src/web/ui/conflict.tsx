import type { Conflict } from '../api/call.js'
import { ActionDialog } from './dialog.js'

interface ConflictProps {
  /** what was changed, such as “board” */
  what: string
  /** what someone else did to it */
  conflict: Conflict
  onLoad: () => Promise<void> | void
  onOverwrite: () => Promise<void>
  /** saves the own version next to whatever else there is */
  onSaveNew: () => Promise<void>
  onClose: () => void
}

/** Asks which version to keep after someone else saved a different one, or deleted theirs. */
export function ConflictDialog({ what, conflict, onLoad, onOverwrite, onSaveNew, onClose }: ConflictProps) {
  if (conflict === 'deleted') {
    return (
      <ActionDialog
        title={`Someone else deleted this ${what}`}
        action={`Save as new ${what}`}
        isHarmless
        onConfirm={onSaveNew}
        onClose={onClose}
      >
        <p>
          They deleted this {what} while you were editing it. You can save your version as a new {what}.
        </p>
      </ActionDialog>
    )
  }
  return (
    <ActionDialog
      title={`Someone else changed this ${what}`}
      action="Overwrite"
      onConfirm={onOverwrite}
      other={{ text: 'Load theirs', act: onLoad }}
      onClose={onClose}
    >
      <p>They saved this {what} while you were editing it. Load their version, or overwrite it with yours.</p>
    </ActionDialog>
  )
}
