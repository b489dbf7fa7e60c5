import t from 'tap'
import { lastIdAt } from '../../src/model/event-id.js'
import type { Counts } from '../../src/questions/name-counts.js'
import { computeSampleSize, countNamed, FIRST, findNewestRange, WHOLE } from '../../src/questions/sample-range.js'

const at = (day: string) => BigInt(Date.parse(day)) << 16n
const before = (day: string) => lastIdAt(at(day) - 1n)
const NOW = lastIdAt(at('2026-05-20'))

/** @param months by name, how many events there were of each; `since`: those that came after them */
function counted(months: Record<string, Record<string, number>>, since: Record<string, number> = {}): Counts {
  const names = new Map()
  let total = 0
  for (const counts of [...Object.values(months), since]) {
    for (const [event, count] of Object.entries(counts)) {
      names.set(event, { event, count: (names.get(event)?.count ?? 0) + count, first_seen: 0, last_seen: 0 })
      total += count
    }
  }
  const rowsOf = (counts: Record<string, number>) =>
    Object.entries(counts).map(([event, count]) => ({ event, count: String(count), first: 0, last: 0 }))
  const byMonth = Object.entries(months).map(([month, counts]) => [month, { parts: '', rows: rowsOf(counts) }] as const)
  const stored = at('2026-05-20')
  const countedTo = at('2026-05-10')
  return { stored, deletions: '', countedAt: 0, countedTo, names, total, months: new Map(byMonth) }
}

const YEAR = counted({
  '202512': { often: 4_000_000, old: 7, rare: 30 },
  '202601': { often: 4_000_000, rare: 150 },
  '202602': { often: 4_000_000, rare: 4 },
  '202605': { often: 1_500, rare: 3 },
})

t.test('computeSampleSize samples fewer events of a rare name, but some', async (t) => {
  t.equal(countNamed(YEAR, undefined), 12_001_694)
  t.equal(countNamed(YEAR, 'none'), 0)
  t.equal(computeSampleSize(YEAR, undefined, FIRST), 1_000)
  t.equal(computeSampleSize(YEAR, 'often', WHOLE), 20_000)
  t.equal(computeSampleSize(YEAR, 'rare', FIRST), 10)
  t.equal(computeSampleSize(YEAR, 'rare', WHOLE), 200)
})

t.test('findNewestRange covers as many months as are needed', async (t) => {
  const range = (event: string | undefined, extent = FIRST) => findNewestRange(YEAR, event, NOW, extent)
  t.strictSame(range(undefined), { after: before('2026-05-01'), upTo: NOW, event: undefined, newest: 1_000 })
  t.match(range(undefined, WHOLE), { after: before('2026-02-01'), upTo: NOW, newest: 20_000 })
  t.strictSame(range('rare'), { after: before('2026-01-01'), upTo: NOW, event: 'rare', newest: 10 })
  t.strictSame(range('rare', WHOLE), { after: before('2025-12-01'), upTo: NOW, event: 'rare', newest: undefined })
  t.strictSame(range('old'), {
    after: before('2025-12-01'),
    upTo: before('2026-01-01'),
    event: 'old',
    newest: undefined,
  })
})

t.test('findNewestRange stops once enough events were searched for a waiting client', async (t) => {
  const scattered = counted({
    '202601': { often: 8_000_000, rare: 5 },
    '202602': { often: 8_000_000, rare: 1 },
    '202603': { often: 8_000_000 },
  })
  t.match(findNewestRange(scattered, 'rare', NOW, FIRST), { after: before('2026-02-01'), upTo: before('2026-03-01') })
  t.match(findNewestRange(scattered, 'rare', NOW, WHOLE), { after: before('2026-01-01'), upTo: before('2026-03-01') })
})

t.test('findNewestRange begins with events since the last count', async (t) => {
  const some = counted({ '202604': { a: 300_000, b: 50 } }, { a: 5_000, b: 2, c: 3 })
  const since = lastIdAt(at('2026-05-10'))
  t.match(findNewestRange(some, 'a', NOW, FIRST), { after: since, upTo: NOW, newest: 1_000 })
  t.match(findNewestRange(some, 'c', NOW, FIRST), { after: since, upTo: NOW, newest: undefined })
  t.match(findNewestRange(some, 'b', NOW, FIRST), { after: before('2026-04-01'), upTo: NOW, newest: 10 })
})

t.test('findNewestRange covers all ids if the months are unknown', async (t) => {
  const some = { ...YEAR, months: null }
  t.strictSame(findNewestRange(some, 'rare', NOW, FIRST), { after: null, upTo: NOW, event: 'rare', newest: 10 })
})
