import t from 'tap'
import { changeCard, moveCard } from '../../../../src/web/views/boards/edit-cards.js'

const cards = [{ id: 'a' }, { id: 'b' }, { id: 'c' }]
const ids = (list: { id: string }[]) => list.map(({ id }) => id).join('')

t.test('moveCard clamps the index', async (t) => {
  t.equal(ids(moveCard(cards, 'a', 1)), 'bac')
  t.equal(ids(moveCard(cards, 'c', 0)), 'cab')
  t.equal(ids(moveCard(cards, 'a', 9)), 'bca')
  t.equal(ids(moveCard(cards, 'a', -1)), 'abc')
  t.equal(ids(moveCard(cards, 'nobody', 1)), 'abc')
})

t.test('changeCard changes one card', async (t) => {
  const wide = cards.map((card) => ({ ...card, width: 1 }))
  const widths = changeCard(wide, 'b', { width: 4 }).map(({ width }) => width)
  t.strictSame(widths, [1, 4, 1])
})
