import fc from 'fast-check'
import t from 'tap'
import { mergeDescending, type PartialList } from '../../../../src/web/views/users/merge-descending.js'

interface Item {
  eventId: string
}

t.test('mergeDescending merges partial lists in order and completely', async (t) => {
  const lists = fc.array(fc.uniqueArray(fc.nat(500), { maxLength: 30 }), { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(lists, fc.integer({ min: 1, max: 7 }), (numbers, step) => {
      const sources = numbers.map((list, i) => {
        return list
          .map((n) => ({ eventId: `${String(n).padStart(3, '0')}-${i}` }))
          .sort((a, b) => compareDescending(a, b))
      })
      const unread = sources.map((list) => [...list])
      let lists: PartialList<Item>[] = sources.map(() => ({ items: [], isComplete: false }))
      const all: Item[] = []
      while (lists.some(({ isComplete }) => !isComplete)) {
        lists = lists.map(({ items, isComplete }, i) => {
          if (isComplete || items.length > 0) return { items, isComplete }
          const read = unread[i]?.splice(0, step) ?? []
          return { items: read, isComplete: unread[i]?.length === 0 }
        })
        const { merged, rest } = mergeDescending(lists)
        all.push(...merged)
        lists = rest
      }
      t.strictSame(all, sources.flat().sort(compareDescending))
    }),
    { numRuns: 60 },
  )
})

function compareDescending(a: Item, b: Item): number {
  return a.eventId < b.eventId ? 1 : -1
}
