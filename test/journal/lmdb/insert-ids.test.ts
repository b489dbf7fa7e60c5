import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { INSERT_ID_BUCKET_MS, OLD_ID_BUCKETS } from '../../../src/journal/insert-id-memory.js'
import { Draft } from '../../../src/journal/lmdb/draft.js'
import type { IdLimits } from '../../../src/journal/lmdb/id-bucket.js'
import { LmdbInsertIds } from '../../../src/journal/lmdb/insert-ids.js'
import { type LmdbTables, openTables } from '../../../src/journal/lmdb/tables.js'
import { transact } from '../../../src/journal/lmdb/transact.js'
import { INSERT_ID_BYTES, NO_INSERT_ID } from '../../../src/model/insert-id.js'
import type { Sender } from '../../../src/model/sender.js'
import { temporaryFolder } from '../../helper.js'
import { sent } from '../writes.js'

/** Small enough that a hundred ids are merged several times, into pages that split. */
const LIMITS: IdLimits = { recent: { min: 4, max: 12 }, page: 3 }
const IDS = 300
/** The kinds of keys in the table, after the number of a bucket. */
const SHAPE = 0
const LOG = 1
const WEEKS = 100 * OLD_ID_BUCKETS * INSERT_ID_BUCKET_MS

const idOf = (n: number) => hash('sha256', `${n}`, 'buffer').subarray(0, INSERT_ID_BYTES)
const idsOf = (numbers: (number | null)[]) => Buffer.concat(numbers.map((n) => (n === null ? NO_INSERT_ID : idOf(n))))

type Step =
  | { type: 'write'; takes: (number | null)[][]; isCommitted: boolean }
  | { type: 'reopen' }
  | { type: 'wait'; buckets: number }
  | { type: 'forget'; limit: number }

/** A simple model of the memory: when each id arrived. */
class Model {
  now = WEEKS
  readonly #came = new Map<number, number>()

  isKnown(n: number): boolean {
    const came = this.#came.get(n)
    return came !== undefined && this.#bucket(came) >= this.#bucket(this.now) - OLD_ID_BUCKETS
  }

  write(takes: (number | null)[][], isCommitted: boolean): number[][] {
    const fresh = new Set<number>()
    const known = takes.map((take) =>
      take.flatMap((n, i) => {
        if (n === null) return []
        if (this.isKnown(n) || fresh.has(n)) return i
        fresh.add(n)
        return []
      }),
    )
    if (isCommitted) for (const n of fresh) this.#came.set(n, this.now)
    return known
  }

  #bucket(ms: number): number {
    return Math.floor(ms / INSERT_ID_BUCKET_MS)
  }
}

const id = fc.oneof({ weight: 9, arbitrary: fc.nat(IDS - 1) }, fc.constant(null))
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({
      type: fc.constant('write' as const),
      takes: fc.array(fc.array(id, { maxLength: 20, size: 'max' }), { minLength: 1, maxLength: 3 }),
      isCommitted: fc.nat(4).map((n) => n > 0),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('reopen' as const) }) },
  fc.record({ type: fc.constant('wait' as const), buckets: fc.integer({ min: 1, max: 2 }) }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('forget' as const), limit: fc.integer({ min: 1, max: 40 }) }) },
)

const failing = () => {
  throw new Error('the disk is full')
}

async function clear({ root, insertIds, idSpaces }: LmdbTables): Promise<void> {
  await root.transaction(() => {
    for (const table of [insertIds, idSpaces]) for (const key of table.getKeys()) table.remove(key)
  })
}

const keysOf = ({ insertIds }: LmdbTables, kind: number) => [...insertIds.getKeys()].filter((key) => key[4] === kind)
const listedBy = (ids: LmdbInsertIds, now: number) =>
  [...ids.all(now)].flatMap(({ ids }) => ids.toString('hex').match(/.{32}/g) ?? [])

/** Whether pages are being split, for each running merge that has rewritten a page. */
function mergesIn(tables: LmdbTables): boolean[] {
  return keysOf(tables, SHAPE).flatMap((key) => {
    const { bits, merge } = JSON.parse(tables.insertIds.get(key)?.toString() ?? '{}')
    return merge && merge.done > 0 ? merge.bits > bits : []
  })
}

t.test('LmdbInsertIds knows each id for a week after its arrival, despite failures and restarts', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const merges = new Set<boolean>()
  const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60, size: 'max' }), async (steps) => {
    await clear(tables)
    const model = new Model()
    let ids = new LmdbInsertIds(tables, { limits: LIMITS })
    for (const step of steps) {
      if (step.type === 'reopen') ids = new LmdbInsertIds(tables, { limits: LIMITS })
      if (step.type === 'wait') model.now += step.buckets * INSERT_ID_BUCKET_MS
      if (step.type === 'forget') await tables.root.transaction(() => ids.forget(model.now, step.limit))
      if (step.type !== 'write') continue
      const draft = new Draft()
      const known = step.takes.map((take) => ids.take(sent(idsOf(take)), model.now, draft))
      const all = Array.from({ length: IDS }, (_, n) => n)
      const taken = new Set(step.takes.flat())
      assert.deepEqual(
        ids.find(sent(idsOf(all)), model.now, draft),
        all.filter((n) => taken.has(n) || model.isKnown(n)),
        'within the write',
      )
      ids.record(draft)
      if (step.isCommitted) await draft.commit(tables.root)
      else await t.rejects(draft.commit(tables.root, failing))
      assert.deepEqual(known, model.write(step.takes, step.isCommitted))
      assert.deepEqual(
        ids.find(sent(idsOf(all)), model.now),
        all.filter((n) => model.isKnown(n)),
      )
      for (const isSplit of mergesIn(tables)) merges.add(isSplit)
      assert.deepEqual(
        [...new Set(listedBy(ids, model.now))].sort(),
        all.flatMap((n) => (model.isKnown(n) ? idOf(n).toString('hex') : [])).sort(),
      )
    }
  })
  await fc.assert(property, { numRuns: 20 })
  t.strictSame([...merges].sort(), [false, true], 'merges that split pages, and others')
})

t.test('ids that a write took for several buckets are new again if it fails', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const ids = new LmdbInsertIds(tables, { limits: LIMITS })
  const take = (draft: Draft) => {
    const known = [0, 1, 2].map((n) =>
      ids.take(sent(idOf(n)), WEEKS, draft, Math.floor(WEEKS / INSERT_ID_BUCKET_MS) - n),
    )
    ids.record(draft)
    return known
  }
  const failed = new Draft()
  t.strictSame(take(failed), [[], [], []])
  await t.rejects(failed.commit(tables.root, failing))
  t.strictSame(ids.find(sent(idsOf([0, 1, 2])), WEEKS), [])
  const draft = new Draft()
  t.strictSame(take(draft), [[], [], []])
  await draft.commit(tables.root)
  t.strictSame(ids.find(sent(idsOf([0, 1, 2])), WEEKS), [0, 1, 2])
})

t.test('ids that are merged leave the log, and are listed in few pieces', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const ids = new LmdbInsertIds(tables, { limits: LIMITS })
  for (let from = 0; from < 1000; from += 5) {
    const draft = new Draft()
    ids.take(sent(idsOf(Array.from({ length: 5 }, (_, i) => from + i))), WEEKS, draft)
    ids.record(draft)
    await draft.commit(tables.root)
  }
  t.ok(keysOf(tables, LOG).length < 20, 'of 200 records')
  const listed = listedBy(ids, WEEKS)
  t.equal(new Set(listed).size, 1000)
  t.ok(listed.length < 1020, 'few of them twice')
  t.equal([...ids.all(WEEKS)].length, 1)
})

t.test('the log stays short if the ids of a write come from many requests', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const ids = new LmdbInsertIds(tables, { limits: LIMITS })
  for (let from = 0; from < 5000; from += 200) {
    const draft = new Draft()
    for (let n = from; n < from + 200; n++) ids.take(sent(idOf(n)), WEEKS, draft)
    ids.record(draft)
    await draft.commit(tables.root)
  }
  t.ok(keysOf(tables, LOG).length < 20, 'for 5000 requests')
})

t.test('the log is soon short again after many single events, if batches follow', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const ids = new LmdbInsertIds(tables, { limits: { recent: { min: 2000, max: 2000 }, page: 100 } })
  const write = async (from: number, count: number) => {
    const draft = new Draft()
    ids.take(sent(idsOf(Array.from({ length: count }, (_, i) => from + i))), WEEKS, draft)
    ids.record(draft)
    await draft.commit(tables.root)
  }
  for (let n = 0; n < 2000; n++) await write(n, 1)
  t.equal(keysOf(tables, LOG).length, 2000)
  for (let from = 2000; from < 5000; from += 100) await write(from, 100)
  t.ok(keysOf(tables, LOG).length < 50, 'after 30 batches')
})

t.test('LmdbInsertIds removes everything about expired ids', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const ids = new LmdbInsertIds(tables, { limits: LIMITS })
  for (let from = 0; from < 1000; from += 50) {
    const draft = new Draft()
    ids.take(sent(idsOf(Array.from({ length: 50 }, (_, i) => from + i))), WEEKS, draft)
    ids.record(draft)
    await draft.commit(tables.root)
  }
  t.ok(tables.insertIds.getCount() > 200)
  const later = WEEKS + (OLD_ID_BUCKETS + 1) * INSERT_ID_BUCKET_MS
  for (let i = 0; tables.insertIds.getCount() > 0 && i < 100; i++) {
    await tables.root.transaction(() => ids.forget(later, 100))
  }
  t.equal(tables.insertIds.getCount(), 0)
})

t.test('LmdbInsertIds removes dropped ids even if a transaction fails', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const ids = new LmdbInsertIds(tables, { limits: LIMITS })
  const draft = new Draft()
  ids.take(sent(idsOf([...Array(50).keys()])), WEEKS, draft)
  ids.record(draft)
  await draft.commit(tables.root)
  const later = WEEKS + 2 * OLD_ID_BUCKETS * INSERT_ID_BUCKET_MS
  await t.rejects(
    transact(tables.root, () => {
      ids.forget(later, 1000)
      throw new Error('the disk is full')
    }),
  )
  for (let i = 0; i < 3; i++) await transact(tables.root, () => ids.forget(later, 1000))
  t.equal(tables.insertIds.getCount(), 0, 'no page or record of it is left')
  t.equal(tables.idSpaces.getCount(), 0)
})

t.test('LmdbInsertIds does not report expired ids as forgotten early', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const shortened: string[] = []
  const onShortened = ({ projectId }: Sender) => shortened.push(projectId)
  const ids = new LmdbInsertIds(tables, { limits: LIMITS, max: { secret: 100, page: 100 }, onShortened })
  const send = async (numbers: number[], now: number) => {
    const draft = new Draft()
    ids.take(sent(idsOf(numbers)), now, draft)
    ids.record(draft)
    await draft.commit(tables.root)
    ids.find(sent(idsOf([0])), now)
  }
  const later = WEEKS + 2 * OLD_ID_BUCKETS * INSERT_ID_BUCKET_MS
  await send([...Array(80).keys()], WEEKS)
  await send([...Array(80).keys()], later)
  t.strictSame(shortened, [])
  t.match([...ids.use(later)], [{ ids: 80, since: null }])
})
