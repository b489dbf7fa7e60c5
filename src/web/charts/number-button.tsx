import type { Cell } from '../../contract/questions.js'
import type { OnCell } from './answer-view.js'

interface NumberButtonProps {
  text: string
  /** what the number is of */
  title: string
  cell?: Cell | undefined
  onCell: OnCell | undefined
}

/** A number; a click shows who is behind it. */
export function NumberButton({ text, title, cell, onCell }: NumberButtonProps) {
  if (!cell || !onCell) return <>{text}</>
  return (
    <button type="button" class="number-button" aria-label={`${text}: ${title}`} onClick={() => onCell(cell, title)}>
      {text}
    </button>
  )
}
