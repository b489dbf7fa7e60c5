import type { BoardCard } from '../../../contract/saved-schemas.js'

/** The cards whose saved question still exists, as far as that is known. */
export function dropDeleted(cards: BoardCard[], saved: readonly Placed[] | null): BoardCard[] {
  if (!saved) return cards
  const ids = new Set(saved.map(({ id }) => id))
  return cards.filter(({ question }) => !('saved' in question) || ids.has(question.saved))
}

/** An item with an id. */
interface Placed {
  id: string
}

/** Moves a card to another index, clamped to the list. */
export function moveCard<C extends Placed>(cards: C[], id: string, place: number): C[] {
  const card = cards.find((one) => one.id === id)
  if (!card) return cards
  const others = cards.filter((one) => one !== card)
  const at = Math.max(0, Math.min(others.length, place))
  return [...others.slice(0, at), card, ...others.slice(at)]
}

/** Changes fields of one card. */
export function changeCard<C extends Placed>(cards: C[], id: string, change: Partial<C>): C[] {
  return cards.map((card) => (card.id === id ? { ...card, ...change } : card))
}
