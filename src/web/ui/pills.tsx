import type { ComponentChildren } from 'preact'
import { useRowKeys } from '../hooks/use-row-keys.js'
import { escapeInvisible } from '../lib/escape-invisible.js'
import * as styles from './pills.module.css'
import { RemoveButton } from './remove-button.js'

interface PillsProps {
  label: string
  texts: readonly string[]
  /** what the button of a pill does, for screen readers, such as `Remove filter: Country is Austria` */
  nameRemoval: (text: string) => string
  onRemove: (index: number) => void
  /** further items of the list */
  children?: ComponentChildren
}

/** A list of chosen items, each with a button that removes it. */
export function Pills({ label, texts, nameRemoval, onRemove, children }: PillsProps) {
  const keys = useRowKeys(texts)
  return (
    <ul class={styles.pills} aria-label={label} tabIndex={-1}>
      {texts.map((given, i) => {
        const text = escapeInvisible(given)
        return (
          <li key={keys[i]}>
            <bdi>{text}</bdi>
            <RemoveButton label={nameRemoval(text)} onClick={() => onRemove(i)} />
          </li>
        )
      })}
      {children}
    </ul>
  )
}
