import t from 'tap'
import { Kept } from '../../src/questions/kept.js'

const current = () => true
const stale = () => false

t.test('what several ask for is made once, and for those who need a later one once more', async (t) => {
  const kept = new Kept<number>({ weigh: () => 1, room: 10 })
  let made = 0
  const make = async () => ++made
  t.strictSame(await Promise.all([1, 2, 3].map(() => kept.get('a', current, make))), [1, 1, 1])
  t.strictSame(await Promise.all([1, 2, 2].map((least) => kept.get('a', (known) => known >= least, make))), [1, 2, 2])
  t.equal(await kept.get('a', stale, make), 3)
  t.equal(await kept.get('a', stale, async (known) => (known ?? 0) * 10), 30)
})

t.test('a failure is for all who wait, and leaves the last result', async (t) => {
  const kept = new Kept<number>({ weigh: () => 1, room: 10 })
  const fail = async () => {
    throw new Error('down')
  }
  await kept.get('a', current, async () => 7)
  const results = await Promise.allSettled([1, 2].map(() => kept.get('a', stale, fail)))
  t.strictSame(
    results.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  t.equal(await kept.get('a', current, fail), 7)
  await t.rejects(kept.get('b', current, fail), { message: 'down' })
  t.equal(await kept.get('b', current, async () => 8), 8)
})

t.test('one that will do comes at once, while it is made anew for the next who asks', async (t) => {
  const kept = new Kept<number>({ weigh: () => 1, room: 10 })
  let made = 0
  const make = async () => ++made
  const get = (willDo: (known: number) => boolean, by = make) => kept.get('a', stale, by, willDo)
  t.equal(await get(current), 1, 'there is none yet')
  t.strictSame(await Promise.all([get(current), get(current)]), [1, 1])
  await kept.settled()
  t.equal(made, 2, 'once for both')
  const fail = async () => {
    throw new Error('down')
  }
  t.equal(await get(current, fail), 2)
  await kept.settled()
  t.equal(await get(current), 2, 'the last result stays')
  await kept.settled()
  t.equal(await get((known) => known > 3), 4)
})

t.test('what was asked for the longest ago makes room', async (t) => {
  const kept = new Kept<number>({ weigh: (_, value) => value, room: 10 })
  let made = 0
  const get = (key: string, weight: number) =>
    kept.get(key, current, async () => {
      made++
      return weight
    })
  for (const key of ['a', 'b', 'a', 'c']) await get(key, 4)
  t.equal(made, 3)
  await get('a', 4)
  t.equal(made, 3, 'a is still there')
  await get('b', 4)
  t.equal(made, 4, 'b was dropped')
  t.equal(await get('large', 11), 11)
  await get('large', 11)
  t.equal(made, 6, 'what is too large is not kept')
})
