import { ActionDialog } from './dialog.js'

interface ConflictProps {
  /** what was changed, such as “board” */
  what: string
  onLoad: () => Promise<void> | void
  onOverwrite: () => Promise<void>
  onClose: () => void
}

/** Asks which version to keep after someone else saved a different one. */
export function ConflictDialog({ what, onLoad, onOverwrite, onClose }: ConflictProps) {
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
