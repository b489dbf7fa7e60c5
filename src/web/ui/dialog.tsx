import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useAction } from '../lib/use-action.js'
import * as buttonStyles from './button.module.css'
import * as styles from './dialog.module.css'
import { Failure } from './notice.js'

interface DialogProps {
  title: string
  onClose: () => void
  /** for side-by-side content */
  isWide?: boolean
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
export function Dialog({ title, onClose, isWide = false, children }: DialogProps) {
  const element = useModal()
  return (
    <dialog
      ref={element}
      aria-label={title}
      onClose={onClose}
      class={isWide ? `${styles.dialog} ${styles.wide}` : styles.dialog}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" class={buttonStyles.plain} aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  )
}

interface ConfirmProps {
  title: string
  children: ComponentChildren
  /** text of the button, such as “Delete event” */
  action: string
  /** called by the button; the dialog stays open if it fails */
  onConfirm: () => Promise<void>
  /** whether required input is missing */
  isBlocked?: boolean
  onClose: () => void
}

/** Asks for confirmation before an action that cannot be undone. */
export function ConfirmDialog({ title, children, action, onConfirm, isBlocked = false, onClose }: ConfirmProps) {
  const { error, isBusy, run } = useAction()
  const confirm = () =>
    run(async () => {
      await onConfirm()
      onClose()
    })
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {error && <Failure error={error} />}
      <footer>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class={buttonStyles.danger} disabled={isBusy || isBlocked} onClick={confirm}>
          {action}
        </button>
      </footer>
    </Dialog>
  )
}
