import type { DrillDown } from '../lib/answer-table.js'
import * as styles from './number-button.module.css'

/** Called when a number is clicked, to show the users that it counts. */
export type OnDrillDown = (drillDown: DrillDown, title: string) => void

interface NumberButtonProps {
  text: string
  /** describes the number */
  title: string
  drillDown?: DrillDown | undefined
  onDrillDown: OnDrillDown | undefined
}

/** A number; a click lists the users that it counts. */
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
