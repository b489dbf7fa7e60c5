import t from 'tap'
import { withRecentReads } from '../../src/states/recent-reads.js'
import type { StateTable } from '../../src/store/tables.js'

const MINUTE = 60_000

/** A table with values that the test sets, and a list of the names that were read. */
function setUp(maxNames = 100) {
  const stored = new Map<string, string>()
  const reads: string[][] = []
  const clock = { now: 0, date: 1e12 }
  const journal = { era: 0 }
  const table: StateTable<string> = {
    kind: 'aliases',
    format: String,
    parse: String,
    row: () => '',
    countBytes: () => 0,
    read: async (_project, names) => {
      reads.push(names)
      return new Map(
        names.flatMap((name) => {
          const value = stored.get(name)
          return value === undefined ? [] : [[name, { version: 1n, bytes: 0, value }]]
        }),
      )
    },
  }
  const options = { maxNames, now: () => clock.now, date: () => clock.date }
  const { read } = withRecentReads(table, journal, options)
  const get = async (...names: string[]) => {
    const found = await read('p', names, 1000)
    return names.map((name) => found.get(name)?.value)
  }
  return { stored, reads, clock, journal, read, get }
}

t.test('values that were read, or not found, are not read again for three minutes', async (t) => {
  const { stored, reads, clock, get, read } = setUp()
  stored.set('a', '1')
  t.strictSame(await get('a', 'b'), ['1', undefined])
  clock.now += 2.9 * MINUTE
  clock.date += 2.9 * MINUTE
  t.strictSame(await get('b', 'a', 'c'), [undefined, '1', undefined])
  t.strictSame(reads, [['a', 'b'], ['c']], 'only new names')
  await read('q', ['a'], 1000)
  t.strictSame(reads.at(-1), ['a'], 'names of another project are different')
  clock.now += 0.2 * MINUTE
  stored.set('b', '2')
  t.strictSame(await get('a', 'b'), ['1', '2'])
  t.equal(reads.length, 4)
})

t.test('a suspended machine, a changed clock and a journal that lost data discard the values', async (t) => {
  for (const change of [
    ({ clock }: ReturnType<typeof setUp>) => {
      clock.date += 4 * MINUTE
    },
    ({ clock }: ReturnType<typeof setUp>) => {
      clock.date -= 4 * MINUTE
    },
    ({ clock }: ReturnType<typeof setUp>) => {
      clock.now += 4 * MINUTE
    },
    ({ journal }: ReturnType<typeof setUp>) => {
      journal.era++
    },
  ]) {
    const it = setUp()
    await it.get('a')
    await it.get('a')
    t.equal(it.reads.length, 1)
    change(it)
    await it.get('a')
    t.equal(it.reads.length, 2)
  }
})

t.test('a change of the journal while the store is read is not missed', async (t) => {
  const { journal, read, reads } = setUp()
  const running = read('p', ['a'], 1000)
  journal.era++
  await running
  await read('p', ['a'], 1000)
  t.equal(reads.length, 2)
})

t.test('the names are bounded, and the latest stay', async (t) => {
  const { get, reads } = setUp(10)
  for (let i = 0; i < 100; i++) await get(`n${i}`)
  reads.length = 0
  for (let i = 99; i >= 90; i--) await get(`n${i}`)
  t.equal(reads.length, 0)
  for (let i = 0; i < 80; i++) await get(`n${i}`)
  t.equal(reads.length, 80)
})
