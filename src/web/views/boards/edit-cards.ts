/** Something with a place in a list. */
interface Placed {
  id: string
}

/** The cards with one of them moved to another place, counted from 0; as far as there are places. */
export function moveCard<C extends Placed>(cards: C[], id: string, place: number): C[] {
  const card = cards.find((one) => one.id === id)
  if (!card) return cards
  const others = cards.filter((one) => one !== card)
  const at = Math.max(0, Math.min(others.length, place))
  return [...others.slice(0, at), card, ...others.slice(at)]
}

/** The cards with something of one of them changed. */
export function changeCard<C extends Placed>(cards: C[], id: string, change: Partial<C>): C[] {
  return cards.map((card) => (card.id === id ? { ...card, ...change } : card))
}
