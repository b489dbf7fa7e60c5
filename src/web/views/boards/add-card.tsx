import { useState } from 'preact/hooks'
import { MAX_CARDS } from '../../../contract/limits.js'
import type { BoardCard } from '../../../contract/saved-schemas.js'
import type { SavedQuestion } from '../../api/saved-questions.js'
import type { Loaded } from '../../hooks/use-loaded.js'
import { Button } from '../../ui/button.js'
import { Dialog } from '../../ui/dialog.js'
import * as listStyles from '../../ui/list.module.css'
import { Failure, Loading } from '../../ui/notice.js'
import * as textStyles from '../../ui/text.module.css'
import { useSuggestedBoard } from './overview.js'

type NewCard = Omit<BoardCard, 'id'>

interface AddCardProps {
  saved: Loaded<SavedQuestion[]>
  /** number of cards on the board */
  count: number
  onAdd: (card: NewCard) => void
  onClose: () => void
}

/** Offers cards to add; stays open, because people often add several. */
export function AddCard({ saved, count, onAdd, onClose }: AddCardProps) {
  const suggested = useSuggestedBoard()
  const [status, setStatus] = useState('')
  const add = (card: NewCard) => {
    onAdd(card)
    setStatus(`“${card.name}” is on the board now.`)
  }
  const isFull = count >= MAX_CARDS
  const ofSaved = saved.value?.map(({ id, name }) => {
    return { name, question: { saved: id }, display: null, width: 2, height: null }
  })
  return (
    <Dialog title="Add card" onClose={onClose}>
      <p role="status">{isFull ? `A board has at most ${MAX_CARDS} cards.` : status}</p>
      <h3>Saved questions</h3>
      {saved.error && <Failure error={saved.error} onRetry={saved.reload} />}
      {saved.isLoading && !saved.value && <Loading what="the saved questions" />}
      {saved.value?.length === 0 && <p class={textStyles.hint}>Nothing is saved yet.</p>}
      <Offers label="Saved questions" cards={ofSaved ?? []} isFull={isFull} onAdd={add} />
      <p class={textStyles.hint}>
        <a href="#/explore" target="_blank" rel="noreferrer">
          Ask another question in a new tab
        </a>{' '}
        and save it there, then{' '}
        <Button look="inline" onClick={saved.reload}>
          look for it here
        </Button>
        .
      </p>
      <h3>About your data</h3>
      {suggested.error && <Failure error={suggested.error} onRetry={suggested.reload} />}
      <Offers label="About your data" cards={suggested.board.cards} isFull={isFull} onAdd={add} />
    </Dialog>
  )
}

interface OffersProps {
  label: string
  cards: NewCard[]
  isFull: boolean
  onAdd: (card: NewCard) => void
}

function Offers({ label, cards, isFull, onAdd }: OffersProps) {
  return (
    <ul class={listStyles.list} aria-label={label}>
      {cards.map((card) => (
        <li key={JSON.stringify([card.name, card.question])}>
          <span>{card.name}</span>
          <Button disabled={isFull} aria-label={`Add ${card.name}`} onClick={() => onAdd(card)}>
            Add
          </Button>
        </li>
      ))}
    </ul>
  )
}
