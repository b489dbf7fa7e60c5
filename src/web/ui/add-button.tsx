import type { ComponentChildren } from 'preact'
import { Button } from './button.js'

interface AddButtonProps {
  look?: 'add' | 'link'
  /** adds an item with a combobox, in the same section or fieldset */
  onClick: () => void
  children: ComponentChildren
}

/** Adds an item to a list, and moves the keyboard focus to the first name to choose in it, which is before the button. */
export function AddButton({ look = 'link', onClick, children }: AddButtonProps) {
  const add = ({ currentTarget: button }: { currentTarget: HTMLButtonElement }) => {
    const list = button.closest('fieldset, section')
    const find = () => [...(list?.querySelectorAll<HTMLElement>('[role="combobox"]') ?? [])]
    const before = new Set(find())
    onClick()
    // Preact renders the item in a microtask that is queued by now.
    queueMicrotask(() =>
      find()
        .find((field) => !before.has(field))
        ?.focus(),
    )
  }
  return (
    <Button look={look} onClick={add}>
      {children}
    </Button>
  )
}
