import type { ComponentChildren } from 'preact'

interface ScrollableProps {
  label: string
  class: string
  children: ComponentChildren
}

/** A part of the page that scrolls where it is too large, with the keyboard as well. */
export function Scrollable({ label, class: name, children }: ScrollableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: only what has the focus can be scrolled with the keyboard
    <section class={name} tabIndex={0} aria-label={label}>
      {children}
    </section>
  )
}
