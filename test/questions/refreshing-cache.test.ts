import t from 'tap'
import { Backlog } from '../../src/questions/backlog.js'
import {
  type CacheRequest,
  RefreshingCache,
  type RefreshingCacheOptions,
} from '../../src/questions/refreshing-cache.js'
import { until } from '../helper.js'

const always = () => true
const never = () => false
const fail = async () => {
  throw new Error('down')
}

function open({ weigh = () => 1, isOutdated = never }: Partial<RefreshingCacheOptions<number>> = {}) {
  const failures: unknown[] = []
  const backlog = new Backlog({ info: (details: unknown) => failures.push(details) })
  const cache = new RefreshingCache<number>({ room: 10, weigh, isOutdated, backlog })
  const get = (key: string, wanted: Partial<CacheRequest<number>> & Pick<CacheRequest<number>, 'make'>) =>
    cache.get(key, { projectId: 'p', isCurrent: never, suffices: never, renew: wanted.make, ...wanted })
  return { cache, backlog, failures, get }
}

t.test(
  'RefreshingCache makes a result once for concurrent callers, and once more for those who need a later one',
  async (t) => {
    const { get } = open()
    let made = 0
    const make = async () => ++made
    t.strictSame(await Promise.all([1, 2, 3].map(() => get('a', { isCurrent: always, make }))), [1, 1, 1])
    const least = (wanted: number) => get('a', { isCurrent: (known) => known >= wanted, make })
    t.strictSame(await Promise.all([1, 2, 2].map(least)), [1, 2, 2])
    t.equal(await get('a', { make }), 3)
    t.equal(await get('a', { make: async (known) => (known ?? 0) * 10 }), 30)
  },
)

t.test('RefreshingCache fails all waiting callers of a result, and keeps the last one', async (t) => {
  const { get, cache } = open()
  await get('a', { isCurrent: always, make: async () => 7 })
  const results = await Promise.allSettled([1, 2].map(() => get('a', { make: fail })))
  t.strictSame(
    results.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  t.equal(await get('a', { isCurrent: always, make: fail }), 7)
  t.equal(cache.last('a'), 7)
  await t.rejects(get('b', { isCurrent: always, make: fail }), { message: 'down' })
  t.equal(await get('b', { isCurrent: always, make: async () => 8 }), 8)
})

t.test('RefreshingCache returns a sufficient result immediately, and renews it for the next caller', async (t) => {
  const { get, backlog, failures } = open()
  let made = 0
  const make = async () => ++made
  const ask = (renew = make) => get('a', { suffices: always, make, renew })
  t.equal(await ask(), 1, 'there is none yet')
  await backlog.settled()
  t.equal(made, 2, 'the first one is renewed, too')
  t.strictSame(await Promise.all([ask(), ask()]), [2, 2])
  await backlog.settled()
  t.equal(made, 3, 'once for both')
  t.equal(await ask(fail), 3)
  await backlog.settled()
  t.equal(failures.length, 1)
  t.equal(await ask(), 3, 'the last result stays')
  await backlog.settled()
  t.equal(await get('a', { suffices: (known) => known > 4, make }), 5)
})

t.test('RefreshingCache makes nobody wait for a renewal, and loses no result made in the meantime', async (t) => {
  const { get, backlog, cache } = open({ isOutdated: (renewed, by) => renewed < by })
  let finish: (renewed: number) => void = () => undefined
  const make = async () => 5
  const begun = new Promise<void>((resolve) => {
    const renew = () => {
      resolve()
      return new Promise<number>((end) => {
        finish = end
      })
    }
    get('a', { suffices: always, make, renew })
  })
  await until('the first one', () => cache.last('a') === 5)
  const settled = backlog.settled()
  await begun
  t.equal(await get('a', { isCurrent: (known) => known > 5, make: async () => 8 }), 8)
  finish(7)
  await settled
  t.equal(cache.last('a'), 8, 'the renewed result is outdated by then')
})

t.test('RefreshingCache evicts the result that was used least recently', async (t) => {
  const { get: ask } = open({ weigh: (_, value) => value })
  let made = 0
  const get = (key: string, weight: number) =>
    ask(key, {
      isCurrent: always,
      make: async () => {
        made++
        return weight
      },
    })
  for (const key of ['a', 'b', 'a', 'c']) await get(key, 4)
  t.equal(made, 3)
  await get('a', 4)
  t.equal(made, 3, 'a is still there')
  await get('b', 4)
  t.equal(made, 4, 'b was dropped')
  t.equal(await get('large', 11), 11)
  await get('large', 11)
  t.equal(made, 6, 'a result that is too large is not kept')
})
