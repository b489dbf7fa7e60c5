import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { createBatchLoader } from '../../src/lib/batch-loader.js'

/** A look-up that records its calls. */
function noted(fetch = async (keys: number[]) => keys.map((key) => `value of ${key}`)) {
  const asked: number[][] = []
  const get = createBatchLoader((keys: number[]) => {
    asked.push([...keys])
    return fetch(keys)
  })
  return { asked, get }
}

const to = (count: number) => Array.from({ length: count }, (_, i) => i)

t.test('the look-ups of one turn are one fetch', async (t) => {
  const { asked, get } = noted()
  t.same(await Promise.all([3, 1, 2].map(get)), ['value of 3', 'value of 1', 'value of 2'])
  t.same(asked, [[3, 1, 2]])
})

t.test('two look-ups of one key both get the value', async (t) => {
  const { get } = noted()
  t.same(await Promise.all([1, 1, 2, 1].map(get)), ['value of 1', 'value of 1', 'value of 2', 'value of 1'])
})

t.test('later look-ups need another fetch, even while one is running', async (t) => {
  const answers: (() => void)[] = []
  const { asked, get } = noted(async (keys) => {
    await new Promise<void>((resolve) => answers.push(resolve))
    return keys.map(String)
  })
  const first = get(1)
  await nextTurn()
  t.same(asked, [[1]])
  const second = Promise.all([get(2), get(1)])
  await nextTurn()
  t.same(asked, [[1], [2, 1]], 'nothing is remembered, and nothing waits for the previous fetch')
  answers[1]?.()
  t.same(await second, ['2', '1'])
  answers[0]?.()
  t.equal(await first, '1')
})

t.test('beyond the maximum of concurrent fetches, later look-ups share the next one', async (t) => {
  const answers: (() => void)[] = []
  const asked: number[][] = []
  const fetch = async (keys: number[]) => {
    asked.push(keys)
    await new Promise<void>((resolve) => answers.push(resolve))
    if (keys.includes(2)) throw new Error('no answer')
    return keys.map(String)
  }
  const get = createBatchLoader(fetch, { atOnce: 2 })
  const values = []
  for (const key of to(5)) {
    values.push(get(key))
    await nextTurn()
  }
  t.same(asked, [[0], [1]])
  answers[1]?.()
  t.equal(await values[1], '1')
  await nextTurn()
  t.same(asked, [[0], [1], [2, 3, 4]])
  answers[2]?.()
  const results = await Promise.allSettled(values.slice(2))
  t.ok(results.every(({ status }) => status === 'rejected'))
  const later = get(5)
  await nextTurn()
  answers[3]?.()
  t.equal(await later, '5', 'a failed fetch makes room, too')
  answers[0]?.()
  t.equal(await values[0], '0')
})

t.test('a fetch has at most a thousand keys', async (t) => {
  for (const [count, sizes] of [
    [999, [999]],
    [1000, [1000]],
    [1001, [1000, 1]],
    [2500, [1000, 1000, 500]],
  ] as const) {
    const { asked, get } = noted()
    const values = await Promise.all(to(count).map(get))
    t.same(
      asked.map(({ length }) => length),
      sizes,
      `${count} keys`,
    )
    t.same(
      values,
      to(count).map((i) => `value of ${i}`),
    )
  }
})

t.test('a failed fetch rejects only its own look-ups', async (t) => {
  const failure = new Error('no answer')
  const { get } = noted(async (keys) => {
    if (keys.includes(5)) throw failure
    return keys.map(String)
  })
  const settled = await Promise.allSettled(to(1500).map(get))
  t.ok(settled.slice(0, 1000).every((result) => result.status === 'rejected' && result.reason === failure))
  t.ok(settled.slice(1000).every((result) => result.status === 'fulfilled'))
  t.equal(await get(6), '6', 'and the next look-up is fetched again')
})

t.test('a fetch that throws synchronously', async (t) => {
  const get = createBatchLoader((_keys: number[]): Promise<string[]> => {
    throw new Error('immediately')
  })
  await t.rejects(Promise.all([get(1), get(2)]), { message: 'immediately' })
})

t.test('every look-up gets the value of its own key', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(fc.nat(9), { maxLength: 20 }), { maxLength: 5 }), async (turns) => {
      const { asked, get } = noted()
      const results: Promise<string[]>[] = []
      for (const keys of turns) {
        results.push(Promise.all(keys.map(get)))
        await nextTurn()
      }
      const values = await Promise.all(results)
      const right = values.every((texts, turn) => texts.every((text, i) => text === `value of ${turns[turn]?.[i]}`))
      return right && asked.flat().length === turns.flat().length
    }),
  )
})

t.test('with a limit, a value resolves before slower ones of the same fetch', async (t) => {
  let finish = (_: string) => {}
  const slow = new Promise<string>((resolve) => {
    finish = resolve
  })
  const get = createBatchLoader(async (keys: number[]) => keys.map((key) => (key === 1 ? slow : `${key}`)), {
    atOnce: 1,
  })
  const [first, second] = [get(1), get(2)]
  // The owner of a value may have to finish with it before the slower one can be made.
  t.equal(await second, '2')
  finish('1')
  t.equal(await first, '1')
  t.equal(await get(3), '3')
})
