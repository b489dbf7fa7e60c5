import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { BoardCard } from '../../../contract/saved-schemas.js'
import type { SavedQuestion } from '../../api/saved-questions.js'
import type { Loaded } from '../../hooks/use-loaded.js'
import { useRound } from '../../hooks/use-round.js'
import type { BoardControls } from '../../lib/board-controls.js'
import * as textStyles from '../../ui/text.module.css'
import * as styles from './card-grid.module.css'
import { CardView } from './card-view.js'

/** The edits of a board's cards. */
interface CardEdit {
  /** @param place index, clamped to the list */
  move: (id: string, place: number) => void
  change: (id: string, what: Partial<BoardCard>) => void
  remove: (id: string) => void
}

interface CardGridProps {
  cards: BoardCard[]
  /** null if no card uses a saved question */
  saved: Loaded<SavedQuestion[]> | null
  controls: BoardControls
  /** if missing, the cards are read-only */
  edit?: CardEdit
}

/** A grid of cards. Answers in view are refreshed every minute. */
export function CardGrid({ cards, saved, controls, edit }: CardGridProps) {
  const round = useRound()
  const grid = useRef<HTMLDivElement>(null)
  const refocus = useRef('')
  const dragged = useRef('')
  const [announcement, setAnnouncement] = useState('')
  useLayoutEffect(() => {
    if (refocus.current === '') return
    grid.current?.querySelector<HTMLElement>(`[data-control="${refocus.current}"]`)?.focus()
    refocus.current = ''
  })
  const move = (id: string, place: number) => {
    const at = Math.max(0, Math.min(cards.length - 1, place))
    setAnnouncement(`${cards.find((card) => card.id === id)?.name} is card ${at + 1} of ${cards.length}.`)
    edit?.move(id, at)
  }
  return (
    <div ref={grid} class={styles.cards}>
      {cards.map((card, index) => (
        <CardView
          key={card.id}
          card={card}
          place={index}
          saved={saved}
          controls={controls}
          round={round}
          edit={
            edit && {
              onMove: (by) => {
                // An element loses the focus when it moves within the document.
                refocus.current = `${card.id} ${by}`
                move(card.id, index + by)
              },
              onDrag: () => {
                dragged.current = card.id
              },
              onDrop: () => dragged.current !== '' && move(dragged.current, index),
              onChange: (what) => edit.change(card.id, what),
              onRemove: () => edit.remove(card.id),
            }
          }
        />
      ))}
      {edit && (
        <p role="status" class={textStyles.hidden}>
          {announcement}
        </p>
      )}
    </div>
  )
}
