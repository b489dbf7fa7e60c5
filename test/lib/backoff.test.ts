import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { backoffMs, retry } from '../../src/lib/backoff.js'

const FAST = { firstMs: 1, maxMs: 2 }

t.test('pauses double up to the limit, half of each random', async (t) => {
  const backoff = { firstMs: 100, maxMs: 500 }
  const failures = [1, 2, 3, 4, 5, 5000]
  t.same(
    failures.map((count) => backoffMs(backoff, count, 1)),
    [100, 200, 400, 500, 500, 500],
  )
  t.same(
    failures.map((count) => backoffMs(backoff, count, 0)),
    [50, 100, 200, 250, 250, 250],
  )
})

t.test('retries until an attempt succeeds, and reports each failure', async (t) => {
  const reports: number[] = []
  let attempts = 0
  const attempt = async () => {
    if (++attempts < 4) throw new Error('not yet')
  }
  const onFailure = (_error: unknown, { failures }: { failures: number }) => void reports.push(failures)
  t.equal(await retry(attempt, { backoff: FAST, signal: new AbortController().signal, onFailure }), true)
  t.same(reports, [1, 2, 3])
})

t.test('throws an error that is not retryable', async (t) => {
  let attempts = 0
  const attempt = async () => {
    throw new Error(++attempts === 2 ? 'fatal' : 'transient')
  }
  const isRetryable = (error: unknown) => error instanceof Error && error.message === 'transient'
  await t.rejects(retry(attempt, { backoff: FAST, signal: new AbortController().signal, isRetryable }), {
    message: 'fatal',
  })
})

t.test('the signal ends a pause, and a failure after it is not reported', async (t) => {
  const stop = new AbortController()
  let attempts = 0
  const options = { backoff: { firstMs: 60_000, maxMs: 60_000 }, signal: stop.signal }
  const waiting = retry(async () => void attempts++, { ...options, failures: 1 })
  const failing = retry(
    async () => {
      await wait(10)
      throw new Error('in flight at the end')
    },
    { ...options, onFailure: () => t.fail('reported') },
  )
  stop.abort()
  t.same(await Promise.all([waiting, failing]), [false, false])
  t.equal(attempts, 0)
})
