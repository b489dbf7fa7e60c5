import type { ComponentChildren } from 'preact'

interface ScrollableProps {
  label: string
  class: string
  children: ComponentChildren
}

/** A region that scrolls if its content is too large, also with the keyboard. */
export function Scrollable({ label, class: name, children }: ScrollableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: an element needs the focus to be scrolled with the keyboard
    <section class={name} tabIndex={0} aria-label={label}>
      {children}
    </section>
  )
}
