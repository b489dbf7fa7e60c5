import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useAction } from '../hooks/use-action.js'
import { Button } from './button.js'
import * as styles from './dialog.module.css'
import * as formStyles from './form.module.css'
import { Failure, type FieldLabels } from './notice.js'

interface DialogProps {
  title: string
  onClose: () => void
  /** for side-by-side content */
  isWide?: boolean
  /** whether it stays open for now, whatever the user does */
  isHeld?: boolean
  children: ComponentChildren
}

/** Opens a modal dialog, and restores the focus after it. @returns a ref for the dialog element */
export function useModal() {
  const element = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const before = document.activeElement
    element.current?.showModal()
    return () => {
      if (before instanceof HTMLElement) before.focus()
    }
  }, [])
  return element
}

/** A modal dialog; Escape closes it. */
export function Dialog({ title, onClose, isWide = false, isHeld = false, children }: DialogProps) {
  const element = useModal()
  return (
    <dialog
      ref={element}
      aria-label={title}
      // Browsers close a dialog at the second Escape even if its event “cancel” is prevented.
      onClose={() => (isHeld ? element.current?.showModal() : onClose())}
      class={isWide ? `${styles.dialog} ${styles.wide}` : styles.dialog}
    >
      <header>
        <h2>{title}</h2>
        <Button look="plain" aria-label="Close" disabled={isHeld} onClick={onClose}>
          ✕
        </Button>
      </header>
      {children}
    </dialog>
  )
}

interface ActionDialogProps {
  title: string
  children: ComponentChildren
  /** text of the button, such as “Delete event” */
  action: string
  /** called by the button; the dialog stays open if it fails */
  onConfirm: () => Promise<void> | void
  /** an alternative action, with a button of its own */
  other?: { text: string; act: () => Promise<void> | void } | undefined
  /** whether required input is missing */
  isBlocked?: boolean
  /** whether the action can be undone, so that its button need not warn */
  isHarmless?: boolean
  /** the labels of its fields */
  labels?: FieldLabels
  onClose: () => void
}

/**
 * Asks for confirmation of an action, or for what it needs, and closes after it. An action that has begun cannot be
 * cancelled, so the dialog stays until it has ended, and shows why it failed.
 */
export function ActionDialog({ title, children, action, onConfirm, other, onClose, ...props }: ActionDialogProps) {
  const { error, isBusy, run } = useAction()
  const isDisabled = isBusy || props.isBlocked
  const start = (act: ActionDialogProps['onConfirm']) =>
    run(async () => {
      await act()
      onClose()
    })
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    void start(onConfirm)
  }
  return (
    <Dialog title={title} isHeld={isBusy} onClose={onClose}>
      <form class={formStyles.form} onSubmit={submit}>
        {children}
        {error && <Failure error={error} labels={props.labels} />}
        <footer>
          <Button disabled={isBusy} onClick={onClose}>
            Cancel
          </Button>
          {other && (
            <Button disabled={isDisabled} onClick={() => start(other.act)}>
              {other.text}
            </Button>
          )}
          <Button type="submit" look={props.isHarmless ? 'primary' : 'danger'} disabled={isDisabled}>
            {action}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
