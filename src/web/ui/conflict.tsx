import { useAction } from '../lib/use-action.js'
import * as buttonStyles from './button.module.css'
import { Dialog } from './dialog.js'
import { Failure } from './notice.js'

interface ConflictProps {
  /** what was changed, such as “board” */
  what: string
  onLoad: () => Promise<void> | void
  onOverwrite: () => Promise<void>
  onClose: () => void
}

/** Asks which version to keep when somebody else has saved a different one. */
export function ConflictDialog({ what, onLoad, onOverwrite, onClose }: ConflictProps) {
  const { error, isBusy, run } = useAction()
  const choose = (act: ConflictProps['onLoad']) => () =>
    run(async () => {
      await act()
      onClose()
    })
  return (
    <Dialog title={`Someone else changed this ${what}`} onClose={onClose}>
      <p>They saved this {what} while you were editing it. Load their version, or overwrite it with yours.</p>
      {error && <Failure error={error} />}
      <footer>
        <button type="button" disabled={isBusy} onClick={choose(onLoad)}>
          Load theirs
        </button>
        <button type="button" class={buttonStyles.danger} disabled={isBusy} onClick={choose(onOverwrite)}>
          Overwrite
        </button>
      </footer>
    </Dialog>
  )
}
