import { hash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { INSERT_ID_BUCKET_MS, OLD_ID_BUCKETS } from '../../../src/journal/insert-id-memory.js'
import { Draft } from '../../../src/journal/lmdb/draft.js'
import type { IdLimits } from '../../../src/journal/lmdb/id-bucket.js'
import { LmdbInsertIds } from '../../../src/journal/lmdb/insert-ids.js'
import { type LmdbTables, openTables } from '../../../src/journal/lmdb/tables.js'
import { INSERT_ID_BYTES, NO_INSERT_ID } from '../../../src/model/insert-id.js'
import { temporaryFolder } from '../../helper.js'

/** So small that a hundred ids are merged several times, into pages that split. */
const LIMITS: IdLimits = { recent: { min: 4, max: 12 }, page: 3 }
const IDS = 120
const WEEKS = 100 * OLD_ID_BUCKETS * INSERT_ID_BUCKET_MS

const idOf = (n: number) => hash('sha256', `${n}`, 'buffer').subarray(0, INSERT_ID_BYTES)
const idsOf = (numbers: (number | null)[]) => Buffer.concat(numbers.map((n) => (n === null ? NO_INSERT_ID : idOf(n))))

type Step =
  | { type: 'write'; takes: (number | null)[][]; isCommitted: boolean }
  | { type: 'reopen' }
  | { type: 'wait'; buckets: number }
  | { type: 'forget'; limit: number }

/** What is remembered, as simply as it can be said: when each id came. */
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
    weight: 12,
    arbitrary: fc.record({
      type: fc.constant('write' as const),
      takes: fc.array(fc.array(id, { maxLength: 30 }), { minLength: 1, maxLength: 3 }),
      isCommitted: fc.nat(4).map((n) => n > 0),
    }),
  },
  fc.record({ type: fc.constant('reopen' as const) }),
  fc.record({ type: fc.constant('wait' as const), buckets: fc.integer({ min: 1, max: 2 }) }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('forget' as const), limit: fc.integer({ min: 1, max: 40 }) }) },
)

async function clear({ root, insertIds, oldInsertIds }: LmdbTables): Promise<void> {
  await root.transaction(() => {
    for (const table of [insertIds, oldInsertIds]) for (const key of table.getKeys()) table.remove(key)
  })
}

t.test('each id is known for a week from when it first came, whatever fails and restarts meanwhile', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  let merges = 0
  const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), async (steps) => {
    await clear(tables)
    const model = new Model()
    let ids = new LmdbInsertIds(tables, LIMITS)
    for (const step of steps) {
      if (step.type === 'reopen') ids = new LmdbInsertIds(tables, LIMITS)
      if (step.type === 'wait') model.now += step.buckets * INSERT_ID_BUCKET_MS
      if (step.type === 'forget') await tables.root.transaction(() => ids.forget(model.now, step.limit))
      if (step.type !== 'write') continue
      const draft = new Draft()
      const known = step.takes.map((take) => ids.take(idsOf(take), model.now, draft))
      if (step.isCommitted) await draft.commit(tables.root, tables.states)
      t.strictSame(known, model.write(step.takes, step.isCommitted))
      const all = Array.from({ length: IDS }, (_, n) => n)
      t.strictSame(
        ids.find(idsOf(all), model.now),
        all.filter((n) => model.isKnown(n)),
      )
      merges = Math.max(merges, tables.insertIds.getCount())
      const listed = new Set([...ids.all(model.now)].flatMap(({ ids }) => ids.toString('hex').match(/.{32}/g) ?? []))
      t.strictSame([...listed].sort(), all.flatMap((n) => (model.isKnown(n) ? idOf(n).toString('hex') : [])).sort())
    }
  })
  await fc.assert(property, { numRuns: 150 })
  t.ok(merges > 20, 'ids were in pages')
})

t.test('expired ids leave nothing behind', async (t) => {
  const tables = openTables(await temporaryFolder(t))
  t.teardown(() => tables.root.close())
  const ids = new LmdbInsertIds(tables, LIMITS)
  for (let from = 0; from < 1000; from += 50) {
    const draft = new Draft()
    ids.take(idsOf(Array.from({ length: 50 }, (_, i) => from + i)), WEEKS, draft)
    await draft.commit(tables.root, tables.states)
  }
  t.ok(tables.insertIds.getCount() > 200)
  const later = WEEKS + (OLD_ID_BUCKETS + 1) * INSERT_ID_BUCKET_MS
  for (let i = 0; tables.insertIds.getCount() > 0 && i < 100; i++) {
    await tables.root.transaction(() => ids.forget(later, 100))
  }
  t.equal(tables.insertIds.getCount(), 0)
})
