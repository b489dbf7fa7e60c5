import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { DrillDown } from '../lib/answer-table.js'
import * as styles from './number-button.module.css'

/** Called when a number is clicked, to show the users behind it; null if numbers are not clickable. */
export const DrillDownContext = createContext<((drillDown: DrillDown, title: string) => void) | null>(null)

interface NumberButtonProps {
  text: string
  /** describes the number */
  title: string
  drillDown: DrillDown | undefined
}

/** A number; a click lists the users behind it. */
export function NumberButton({ text, title, drillDown }: NumberButtonProps) {
  const onDrillDown = useContext(DrillDownContext)
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
