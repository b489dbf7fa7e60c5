import type { DrillDown } from '../lib/answer-table.js'
import * as styles from './number-button.module.css'

/** What to do when somebody wants to know who is behind a number. */
export type OnDrillDown = (drillDown: DrillDown, title: string) => void

interface NumberButtonProps {
  text: string
  /** what the number is of */
  title: string
  drillDown?: DrillDown | undefined
  onDrillDown: OnDrillDown | undefined
}

/** A number; a click shows who is behind it. */
export function NumberButton({ text, title, drillDown, onDrillDown }: NumberButtonProps) {
  if (!drillDown || !onDrillDown) return <>{text}</>
  return (
    <button
      type="button"
      class={styles.numberButton}
      aria-label={`${text}: ${title}`}
      onClick={() => onDrillDown(drillDown, title)}
    >
      {text}
    </button>
  )
}
