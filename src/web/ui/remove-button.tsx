import { useLayoutEffect, useRef } from 'preact/hooks'
import { Button } from './button.js'

interface RemoveButtonProps {
  /** says which item, such as `Remove series 2` */
  label: string
  disabled?: boolean
  onClick: () => void
}

/**
 * Removes an item of a list. The keyboard focus then moves to the nearest button of the list, or else to the list itself
 * or to the next button of the page.
 */
export function RemoveButton({ label, disabled = false, onClick }: RemoveButtonProps) {
  const clicked = useRef<{ button: HTMLButtonElement; nearest: HTMLElement[] } | null>(null)
  const remove = ({ currentTarget: button }: { currentTarget: HTMLButtonElement }) => {
    clicked.current = { button, nearest: findNearest(button) }
    onClick()
  }
  // The item is removed later if the removal changes the URL. Safari does not focus a button that is clicked.
  useLayoutEffect(() => {
    return () => {
      const { button, nearest } = clicked.current ?? {}
      if (button && document.activeElement === button) queueMicrotask(() => nearest?.find(takeFocus))
    }
  }, [])
  return (
    <Button look="plain" aria-label={label} disabled={disabled} onClick={remove}>
      ✕
    </Button>
  )
}

/** What can be focused instead of the button, the nearest first. */
function findNearest(button: HTMLButtonElement): HTMLElement[] {
  const list = button.closest<HTMLElement>('ul, section')
  const own = [...(list?.querySelectorAll('button') ?? [])]
  const itself = list?.hasAttribute('tabindex') ? [list] : []
  const all = [...document.querySelectorAll('button')]
  const after = all.slice(all.indexOf(button) + 1)
  return [...after.filter((one) => own.includes(one)), ...own.reverse(), ...itself, ...after]
}

/** Focuses an element if that is possible: it may be gone, hidden or disabled. */
function takeFocus(element: HTMLElement): boolean {
  element.focus()
  return document.activeElement === element
}
