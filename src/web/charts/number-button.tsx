import type { Behind } from '../lib/answer-table.js'

/** What to do when somebody wants to know who is behind a number. */
export type OnNumber = (behind: Behind, title: string) => void

interface NumberButtonProps {
  text: string
  /** what the number is of */
  title: string
  behind?: Behind | undefined
  onNumber: OnNumber | undefined
}

/** A number; a click shows who is behind it. */
export function NumberButton({ text, title, behind, onNumber }: NumberButtonProps) {
  if (!behind || !onNumber) return <>{text}</>
  return (
    <button
      type="button"
      class="number-button"
      aria-label={`${text}: ${title}`}
      onClick={() => onNumber(behind, title)}
    >
      {text}
    </button>
  )
}
