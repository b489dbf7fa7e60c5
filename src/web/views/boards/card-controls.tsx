import type { BoardCard } from '../../../contract/saved-schemas.js'
import { Button } from '../../ui/button.js'
import { RemoveButton } from '../../ui/remove-button.js'
import { Select } from '../../ui/select.js'
import { TextField } from '../../ui/text-field.js'
import * as styles from './card-controls.module.css'

const WIDTHS = [
  ['1', '¼ wide'],
  ['2', '½ wide'],
  ['3', '¾ wide'],
  ['4', 'Full width'],
] as const

export interface CardControlsProps {
  card: BoardCard
  /** @param by number of positions; negative moves towards the start */
  onMove: (by: -1 | 1) => void
  /** called when the user starts to drag the card */
  onDrag: () => void
  onChange: (what: Partial<BoardCard>) => void
  onRemove: () => void
}

/** Edits the title, position and width of a card, or removes it. */
export function CardControls({ card, onMove, onDrag, onChange, onRemove }: CardControlsProps) {
  const drag = (event: DragEvent & { currentTarget: HTMLElement }) => {
    const article = event.currentTarget.closest('article')
    event.dataTransfer?.setData('text/plain', card.name)
    if (article) event.dataTransfer?.setDragImage(article, 20, 20)
    onDrag()
  }
  return (
    <div class={styles.controls}>
      <span class={styles.handle} draggable title="Drag to another place" aria-hidden="true" onDragStart={drag}>
        ⠿
      </span>
      <div class={styles.title}>
        <TextField
          label="Title of the card"
          hidesLabel
          value={card.name}
          maxLength={255}
          required
          onChange={(name) => onChange({ name })}
        />
      </div>
      <Button aria-label={`Move ${card.name} back`} data-control={`${card.id} -1`} onClick={() => onMove(-1)}>
        ←
      </Button>
      <Button aria-label={`Move ${card.name} forward`} data-control={`${card.id} 1`} onClick={() => onMove(1)}>
        →
      </Button>
      <Select
        label={`Width of ${card.name}`}
        hidesLabel
        value={String(card.width) as (typeof WIDTHS)[number][0]}
        options={WIDTHS}
        onChange={(width) => onChange({ width: Number(width) })}
      />
      <RemoveButton label={`Remove ${card.name}`} onClick={onRemove} />
    </div>
  )
}
