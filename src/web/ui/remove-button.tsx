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
  const remove = ({ currentTarget: button }: { currentTarget: HTMLButtonElement }) => {
    // Safari does not focus a button that is clicked.
    const isFocused = document.activeElement === button
    const list = button.closest<HTMLElement>('ul, section')
    const own = [...(list?.querySelectorAll('button') ?? [])]
    const itself = list?.hasAttribute('tabindex') ? [list] : []
    const all = [...document.querySelectorAll('button')]
    const after = all.slice(all.indexOf(button) + 1)
    const nearest = [...after.filter((one) => own.includes(one)), ...own.reverse(), ...itself, ...after]
    onClick()
    // Once the page has rendered without the item.
    setTimeout(() => {
      if (isFocused && document.activeElement === document.body) nearest.find(takeFocus)
    })
  }
  return (
    <Button look="plain" aria-label={label} disabled={disabled} onClick={remove}>
      ✕
    </Button>
  )
}

/** Focuses an element if that is possible: it may be gone, hidden or disabled. */
function takeFocus(element: HTMLElement): boolean {
  element.focus()
  return document.activeElement === element
}
