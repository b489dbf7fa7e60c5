import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import * as styles from './popover.module.css'

interface PopoverProps {
  summary: ComponentChildren
  onToggle?: (isOpen: boolean) => void
  children: ComponentChildren
}

/** A panel of fields that a button opens above the page. Escape or a click elsewhere closes it. */
export function Popover({ summary, onToggle, children }: PopoverProps) {
  const element = useRef<HTMLDetailsElement>(null)
  useEffect(() => {
    const { current } = element
    if (!current) return
    const closeFor = ({ target }: Event) => {
      if (target instanceof Node && !current.contains(target)) current.open = false
    }
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== 'Escape' || !current.open) return
      current.open = false
      current.querySelector('summary')?.focus()
      // Otherwise, Escape would also close a dialog around the fields.
      event.preventDefault()
    }
    addEventListener('pointerdown', closeFor, true)
    current.addEventListener('keydown', onKeyDown)
    return () => {
      removeEventListener('pointerdown', closeFor, true)
      current.removeEventListener('keydown', onKeyDown)
    }
  }, [])
  return (
    <details ref={element} class={styles.popover} onToggle={({ currentTarget: { open } }) => onToggle?.(open)}>
      <summary>{summary}</summary>
      <div class={styles.panel}>{children}</div>
    </details>
  )
}
