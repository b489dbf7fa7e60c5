import fc from 'fast-check'
import t from 'tap'
import type { WaitingEntry } from '../../src/journal/journal.js'
import { UnstoredEntries } from '../../src/journal/unstored-entries.js'

const entry = (position: number, bytes = 1): WaitingEntry => ({
  position: BigInt(position),
  kind: 'events',
  projectId: 'p',
  count: 1,
  receivedAt: 0,
  body: Buffer.alloc(bytes),
  shares: [],
})
const positions = (tail: UnstoredEntries, maxBytes = 1e9) =>
  tail.run(maxBytes, 100)?.entries.map(({ position }) => Number(position))

t.test('a run contains what was added and not removed', async (t) => {
  const tail = new UnstoredEntries()
  t.equal(tail.run(10, 100), null)
  tail.add(5, [entry(1), entry(2)])
  tail.add(7, [entry(3)])
  t.strictSame([tail.run(10, 100)?.before, positions(tail)], [5, [1, 2, 3]])
  tail.forget(2n)
  t.strictSame([tail.run(10, 100)?.before, positions(tail)], [7, [3]])
  tail.forget(9n)
  t.equal(tail.run(10, 100), null)
})

t.test('a run ends after maxBytes, with at least one entry', async (t) => {
  const tail = new UnstoredEntries()
  tail.add(0, [entry(1, 5), entry(2, 5), entry(3, 5)])
  t.strictSame(positions(tail, 6), [1, 2])
  t.strictSame(positions(tail, 1), [1])
})

t.test('a run has no gap, whatever others write in between and however full it gets', async () => {
  // A model of a journal that numbers its entries. Two processes write to it, and entries are removed in order once
  // they are stored.
  const step = fc.oneof(
    fc.record({ who: fc.constantFrom('own', 'other'), count: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ who: fc.constant('store'), count: fc.integer({ min: 1, max: 6 }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const tail = new UnstoredEntries(10)
      let added = 0
      let settled = 0
      for (const { who, count } of steps) {
        const numbers = Array.from({ length: count }, (_, i) => added + i)
        if (who === 'own')
          tail.add(
            added,
            numbers.map((n) => entry(n)),
          )
        if (who === 'store') {
          settled = Math.min(added, settled + count)
          tail.forget(BigInt(settled - 1))
        } else {
          added += count
        }
        const run = tail.run(1e9, 100)
        if (!run) continue
        const expected = run.entries.map((_, i) => run.before + i)
        if (JSON.stringify(expected) !== JSON.stringify(run.entries.map(({ position }) => Number(position))))
          return false
        if (run.before < settled || run.entries.length > 10) return false
      }
      return true
    }),
  )
})
