import t from 'tap'
import { findLost, type ShardParts } from '../../src/damage/find-lost.js'
import type { KnownPart, LostPart } from '../../src/store/part-notes.js'
import type { ActivePart, DetachedPart } from '../../src/store/parts.js'

const blocks = (first: number, last: number, partition = '202611') => ({ table: 'events', partition, first, last })
const nameOf = (first: number, last: number, partition = '202611') => `${partition}_${first}_${last}_${last - first}`

function active(first: number, last: number, rows: number, isRecent = false): ActivePart {
  return { ...blocks(first, last), name: nameOf(first, last), rows, isRecent }
}

function known(first: number, last: number, rows: number): KnownPart {
  return { ...blocks(first, last), name: nameOf(first, last), rows, projects: { shop: rows } }
}

function detached(first: number, last: number, reason = 'broken-on-start'): DetachedPart {
  return { table: 'events', blocks: blocks(first, last), name: `${reason}_${nameOf(first, last)}`, reason }
}

/** @param inParts the blocks that have rows in a merged part; default: all */
async function lost(
  seen: Partial<ShardParts>,
  inParts?: number[],
): Promise<[part: string, rows: number | null, boolean][]> {
  const found = await findLost({
    ...{ active: [], outdated: [], known: [], detached: [], noted: [], lagging: new Set<string>(), isRestarted: false },
    hasBlockRows: async (_, { first, last }) => inParts?.some((block) => first <= block && block <= last) ?? true,
    ...seen,
  })
  return found.map(({ part, rows, isSettled }) => [part, rows, isSettled])
}

t.test('parts that exist, or were merged into another one, are not lost', async (t) => {
  t.strictSame(await lost({ known: [known(1, 1, 5)], active: [active(1, 1, 5)] }), [])
  t.strictSame(await lost({ known: [known(1, 1, 5), known(2, 2, 5)], active: [active(1, 2, 10)] }), [])
  t.strictSame(await lost({ known: [known(1, 1, 5)], active: [active(1, 4, 2)] }), [], 'others deleted some')
  t.strictSame(
    await lost({ known: [known(1, 2, 10)], active: [active(1, 1, 5), active(2, 2, 5)] }),
    [],
    'not merged yet',
  )
  t.strictSame(await lost({ known: [known(1, 1, 0)] }), [], 'an empty part')
})

t.test('a missing part is lost, with its rows', async (t) => {
  t.strictSame(await lost({ known: [known(1, 1, 5), known(2, 2, 7)], active: [active(1, 1, 5)] }), [
    [nameOf(2, 2), 7, false],
  ])
  t.strictSame(await lost({ known: [known(1, 2, 10)], active: [active(1, 1, 4)] }), [[nameOf(1, 2), 6, false]])
  const other = { ...active(1, 1, 5), partition: '202610' }
  t.strictSame(await lost({ known: [known(1, 1, 5)], active: [other] }), [[nameOf(1, 1), 5, false]], 'another month')
})

t.test(
  'findLost reports a part that is covered by a merge if no row is left, unless edits or deletes were merged',
  async (t) => {
    const merged = active(1, 3, 10, true)
    const seen = { known: [known(1, 1, 5), known(2, 2, 5), known(3, 3, 5)], active: [merged], isRestarted: true }
    t.strictSame(await lost(seen, [1, 3]), [[nameOf(2, 2), 5, false]])
    t.strictSame(await lost({ ...seen, active: [{ ...merged, name: `${merged.name}_202` }] }, [1, 3]), [])
    const edited = { ...known(2, 2, 5), name: `${nameOf(2, 2)}_202` }
    const later = { ...seen, known: [edited] }
    const same = { ...merged, name: `${merged.name}_202` }
    t.strictSame(await lost({ ...later, active: [same] }, [1, 3]), [[edited.name, 5, false]])
    t.strictSame(await lost({ ...later, active: [{ ...merged, name: `${merged.name}_405` }] }, [1, 3]), [])
  },
)

t.test('a detached part is reported once, with its sources', async (t) => {
  const aside = detached(1, 2)
  t.strictSame(await lost({ detached: [aside], known: [known(1, 1, 5), known(2, 2, 7)] }), [[aside.name, 12, false]])
  t.strictSame(await lost({ detached: [aside] }), [[aside.name, null, false]], 'never noted')
  t.strictSame(
    await lost({ detached: [aside], active: [active(1, 2, 12)] }),
    [[aside.name, null, true]],
    'fetched again',
  )
  const broken = { table: 'events', blocks: null, name: 'broken_x', reason: 'broken' }
  t.strictSame(await lost({ detached: [broken] }), [['broken_x', null, false]])
})

t.test('a part merged from its neighbours does not hide it', async (t) => {
  const seen = { known: [known(1, 1, 5), known(2, 2, 7), known(3, 3, 5)], active: [active(1, 3, 10, true)] }
  t.strictSame(await lost({ ...seen, detached: [detached(2, 2)] }, [1, 3]), [[detached(2, 2).name, 7, false]])
  t.strictSame(await lost({ ...seen, isRestarted: true }, [1, 3]), [[nameOf(2, 2), 7, false]])
  t.strictSame(await lost(seen, [1, 3]), [], 'without a restart, its rows were deleted')
  t.strictSame(await lost({ ...seen, isRestarted: true }, [1, 2, 3]), [])
})

t.test('the sources of a merge since the start show which part was not among them', async (t) => {
  const seen = { known: [known(1, 1, 5), known(2, 2, 7), known(3, 3, 5)], isRestarted: true }
  const merged = { ...active(1, 3, 9, true), name: `${nameOf(1, 3)}_202` }
  const sources = [active(1, 1, 5), active(3, 3, 5)]
  t.strictSame(await lost({ ...seen, active: [merged], outdated: sources }), [[nameOf(2, 2), 7, false]])
  t.strictSame(await lost({ ...seen, active: [merged], outdated: [...sources, active(2, 2, 7)] }), [])
  t.strictSame(await lost({ ...seen, active: [merged], outdated: [active(3, 3, 5)] }), [], 'others are removed already')
  const again = { ...active(1, 4, 14, true), name: `${nameOf(1, 4)}_202` }
  const later = { active: [again], outdated: [...sources, merged, active(4, 4, 5)] }
  t.strictSame(await lost({ ...seen, ...later }), [[nameOf(2, 2), 7, false]], 'merged twice')
  const before = { ...merged, isRecent: false }
  t.strictSame(await lost({ ...seen, active: [before], outdated: sources }), [], 'merged before the start')
})

t.test('a patch is lost while a part is there that lacks it', async (t) => {
  const patch = { ...known(5, 5, 1), partition: 'patch-a-202611', name: 'patch-a-202611_5_5_0_4' }
  t.strictSame(await lost({ known: [patch], active: [active(1, 1, 5)] }), [[patch.name, 1, false]])
  t.strictSame(
    await lost({ known: [patch], active: [{ ...active(1, 1, 5), name: `${nameOf(1, 1)}_4` }] }),
    [],
    'applied',
  )
  t.strictSame(await lost({ known: [patch], active: [active(6, 6, 5)] }), [], 'only later parts')
  t.strictSame(await lost({ known: [patch] }), [], 'nothing to be patched')
  const wider = { ...active(4, 6, 3), partition: patch.partition, name: 'patch-a-202611_4_6_1_5' }
  t.strictSame(await lost({ known: [patch], active: [active(1, 1, 5), wider] }), [], 'merged with other patches')
})

t.test('a broken part whose sources are still in use is no loss', async (t) => {
  const parts = { known: [known(1, 1, 5), known(2, 2, 7)], active: [active(1, 1, 5), active(2, 2, 7)] }
  t.strictSame(await lost({ ...parts, detached: [detached(1, 2)] }), [[detached(1, 2).name, 0, true]])
})

t.test('a loss is reported until it is settled', async (t) => {
  const state = { table: 'events', partition: '202611', reason: '', projects: {}, rows: 7, isSettled: false }
  const missing: LostPart = { ...state, part: nameOf(2, 2), state: 'missing' }
  t.strictSame(await lost({ noted: [missing], known: [known(2, 2, 7)] }), [], 'known already')
  t.strictSame(await lost({ noted: [missing], active: [active(2, 2, 7)] }), [[nameOf(2, 2), 7, true]])
  t.strictSame(await lost({ noted: [missing], active: [active(1, 3, 17)] }, [1, 2, 3]), [[nameOf(2, 2), 7, true]])
  t.strictSame(await lost({ noted: [missing], active: [active(1, 3, 10)] }, [1, 3]), [])
  const again = await lost({ noted: [{ ...missing, isSettled: true }], known: [known(2, 2, 7)] })
  t.strictSame(again, [[nameOf(2, 2), 7, false]], 'lost once more')
  const aside: LostPart = { ...state, part: detached(2, 2).name, state: 'detached' }
  t.strictSame(await lost({ noted: [aside], detached: [detached(2, 2)], known: [known(2, 2, 7)] }), [])
  const back = { active: [active(1, 1, 5), active(2, 2, 7), active(3, 3, 5)] }
  t.strictSame(await lost({ ...back, noted: [aside] }, [1, 3]), [[aside.part, 7, true]], 'put back among others')
  const edited = { ...aside, part: `${aside.part}_24` }
  t.strictSame(await lost({ ...back, noted: [edited] }, [1, 2, 3]), [[edited.part, 7, true]])
})

t.test('a replica that has not fetched everything yet has lost nothing', async (t) => {
  const lagging = new Set(['events'])
  t.strictSame(await lost({ known: [known(1, 1, 5)], detached: [detached(1, 1)], lagging }), [])
})
