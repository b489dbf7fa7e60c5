import t from 'tap'
import { ConcurrencyLimit } from '../../../src/web/api/concurrency-limit.js'
import { until } from '../../helper.js'

/** Runs a task that ends when told to. */
function task(
  limit: ConcurrencyLimit,
  name: string,
  log: string[],
  { signal, priority = 0 }: { signal?: AbortSignal; priority?: number } = {},
) {
  let end = () => {}
  let fail = (_: Error) => {}
  const ended = new Promise<string>((resolve, reject) => {
    end = () => resolve(name)
    fail = reject
  })
  const act = () => {
    log.push(name)
    return ended
  }
  return { end, fail, result: limit.run(act, { signal, priority }) }
}

t.test('ConcurrencyLimit runs a limited number of tasks, and the others in order', async (t) => {
  const limit = new ConcurrencyLimit(2)
  const log: string[] = []
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => task(limit, name, log))
  t.strictSame(log, [], 'nothing starts synchronously')
  await until('the first ones', () => log.length === 2)
  t.strictSame(log, ['a', 'b'])
  b?.end()
  t.equal(await b?.result, 'b')
  await until('the next one', () => log.length === 3)
  t.strictSame(log, ['a', 'b', 'c'])
  a?.fail(new Error('failed'))
  await t.rejects(async () => await a?.result, /failed/)
  c?.end()
  await c?.result
  d?.end()
  t.equal(await d?.result, 'd', 'a failed task frees its slot')
})

t.test('ConcurrencyLimit starts tasks of the same tick by priority', async (t) => {
  const limit = new ConcurrencyLimit(1)
  const log: string[] = []
  const tasks = (
    [
      ['last', 2],
      ['first', 0],
      ['second', 0],
      ['third', 1],
    ] as const
  ).map(([name, priority]) => {
    return task(limit, name, log, { priority })
  })
  for (const { end } of tasks) end()
  await Promise.all(tasks.map(({ result }) => result))
  t.strictSame(log, ['first', 'second', 'third', 'last'])
})

t.test('ConcurrencyLimit skips a waiter that was aborted', async (t) => {
  const limit = new ConcurrencyLimit(1)
  const log: string[] = []
  const first = task(limit, 'first', log)
  const stop = new AbortController()
  const second = task(limit, 'second', log, { signal: stop.signal })
  const third = task(limit, 'third', log)
  await until('the first one', () => log.length === 1)
  stop.abort(new Error('not wanted any more'))
  await t.rejects(async () => await second.result, /not wanted/)
  first.end()
  await first.result
  third.end()
  t.equal(await third.result, 'third')
  t.strictSame(log, ['first', 'third'])
  await t.rejects(
    limit.run(async () => 1, { signal: stop.signal }),
    /not wanted/,
    'nor does it enter',
  )
  t.equal(await limit.run(async () => 1), 1)
})
