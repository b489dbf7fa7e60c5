import type { ComponentChildren } from 'preact'
import { useId, useRef } from 'preact/hooks'
import { Button } from './button.js'
import * as styles from './tabs.module.css'

interface TabsProps {
  label: string
  titles: string[]
  /** index of the selected tab */
  selected: number
  onSelect: (index: number) => void
  /** content of the selected tab */
  children: ComponentChildren
}

/** A row of tabs (the ARIA tabs pattern); arrow keys select. */
export function Tabs({ label, titles, selected, onSelect, children }: TabsProps) {
  const id = useId()
  const row = useRef<HTMLDivElement>(null)
  const onKeyDown = (event: KeyboardEvent) => {
    const last = titles.length - 1
    const moves: Record<string, number> = {
      ArrowRight: selected === last ? 0 : selected + 1,
      ArrowLeft: selected === 0 ? last : selected - 1,
      Home: 0,
      End: last,
    }
    const next = moves[event.key]
    if (next === undefined) return
    event.preventDefault()
    onSelect(next)
    row.current?.querySelectorAll('button')[next]?.focus()
  }
  return (
    <div>
      <div ref={row} class={styles.row} role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {titles.map((title, index) => (
          <Button
            key={title}
            role="tab"
            id={`${id}-tab-${index}`}
            aria-selected={index === selected}
            aria-controls={`${id}-panel`}
            tabIndex={index === selected ? 0 : -1}
            onClick={() => onSelect(index)}
          >
            {title}
          </Button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-tab-${selected}`}>
        {children}
      </div>
    </div>
  )
}
