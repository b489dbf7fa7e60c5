import fc from 'fast-check'
import t from 'tap'
import { type Strand, takeFalling } from '../../../../src/web/views/users/merge-descending.js'

interface Item {
  eventId: string
}

t.test('lists that are read bit by bit come out as one, in order and whole', async (t) => {
  const lists = fc.array(fc.uniqueArray(fc.nat(500), { maxLength: 30 }), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 7 }), (numbers, step) => {
      const sources = numbers.map((list, i) => {
        return list.map((n) => ({ eventId: `${String(n).padStart(3, '0')}-${i}` })).sort((a, b) => falling(a, b))
      })
      const unread = sources.map((list) => [...list])
      let strands: Strand<Item>[] = sources.map(() => ({ items: [], isOver: false }))
      const all: Item[] = []
      while (strands.some(({ isOver }) => !isOver)) {
        strands = strands.map(({ items, isOver }, i) => {
          if (isOver || items.length > 0) return { items, isOver }
          const read = unread[i]?.splice(0, step) ?? []
          return { items: read, isOver: unread[i]?.length === 0 }
        })
        const { taken, rest } = takeFalling(strands)
        all.push(...taken)
        strands = rest
      }
      t.strictSame(all, sources.flat().sort(falling))
    }),
    { numRuns: 60 },
  )
})

function falling(a: Item, b: Item): number {
  return a.eventId < b.eventId ? 1 : -1
}
