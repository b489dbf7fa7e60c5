import t from 'tap'
import { TallyhouseError } from '../../src/client/errors.js'
import { CALL_RETRY, isRetryable, pauseMs, QUEUE_RETRY, retry } from '../../src/client/retry.js'

const AT_ONCE = { attempts: 4, baseDelayMs: 0, maxDelayMs: 0 }
const away = () => new TallyhouseError('network', 'away')

t.test('isRetryable accepts only transient errors', async (t) => {
  const answered = (status: number) => new TallyhouseError('some_code', 'no', { status })
  for (const status of [408, 429, 500, 502, 503, 504, 521, 530]) t.ok(isRetryable(answered(status)), String(status))
  for (const status of [200, 301, 400, 401, 403, 404, 409, 413, 415])
    t.notOk(isRetryable(answered(status)), `${status}`)
  for (const code of ['network', 'timeout']) t.ok(isRetryable(new TallyhouseError(code, 'no')), code)
  for (const code of ['aborted', 'closed', 'queue_full']) t.notOk(isRetryable(new TallyhouseError(code, 'no')), code)
  t.notOk(isRetryable(new TallyhouseError('store_damaged', 'no', { status: 500 })), 'only an operator can help')
  t.notOk(isRetryable(new Error('a mistake in the code')))
})

t.test('retry ends with success, a permanent failure, or the last attempt', async (t) => {
  const failing = (times: number, error: Error) => {
    let calls = 0
    const attempt = async () => {
      calls++
      if (calls <= times) throw error
      return calls
    }
    return { attempt, calls: () => calls }
  }
  t.equal(await retry(failing(3, away()).attempt, AT_ONCE), 4)

  const always = failing(Number.POSITIVE_INFINITY, away())
  await t.rejects(retry(always.attempt, AT_ONCE), { code: 'network' })
  t.equal(always.calls(), 4)

  const late = failing(Number.POSITIVE_INFINITY, away())
  await t.rejects(retry(late.attempt, { ...AT_ONCE, withinMs: -1 }), { code: 'network' })
  t.equal(late.calls(), 1, 'none is left in time')
  const asked = new TallyhouseError('unavailable', 'no', { status: 503, retryAfterMs: 60_000 })
  const paused = failing(Number.POSITIVE_INFINITY, asked)
  await t.rejects(retry(paused.attempt, { attempts: 4, baseDelayMs: 0, maxDelayMs: 60_000, withinMs: 30_000 }), asked)
  t.equal(paused.calls(), 1, 'the pause counts, too')
  const nextMonth = new TallyhouseError('quota_exceeded', 'no', { status: 429, retryAfterMs: 86_400_000 })
  const full = failing(Number.POSITIVE_INFINITY, nextMonth)
  for (const policy of [CALL_RETRY, QUEUE_RETRY]) await t.rejects(retry(full.attempt, policy), nextMonth)
  t.equal(full.calls(), 2, 'nobody waits for a quota to be reset')

  const refused = failing(1, new TallyhouseError('unauthorized', 'no', { status: 401 }))
  await t.rejects(retry(refused.attempt, AT_ONCE), { code: 'unauthorized' })
  t.equal(refused.calls(), 1)
})

t.test('an abort ends the pause of retry, and the last failure is the cause', async (t) => {
  const stop = new AbortController()
  const cause = away()
  const patient = { attempts: 2, baseDelayMs: 3_600_000, maxDelayMs: 3_600_000 }
  const attempt = async () => {
    setImmediate(() => stop.abort())
    throw cause
  }
  await t.rejects(retry(attempt, patient, stop.signal), { code: 'aborted', cause })
})

t.test('a machine that was suspended retries nothing whose key the service has forgotten', async (t) => {
  const hourMs = 3_600_000
  for (const [hours, calls] of [
    [22, 2],
    [24, 1],
  ] as const) {
    let now = 0
    let made = 0
    const attempt = async () => {
      made++
      throw away()
    }
    const sleep = () => {
      now += hours * hourMs
    }
    const policy = { attempts: 2, baseDelayMs: 0, maxDelayMs: 0 }
    await t.rejects(
      retry(attempt, policy, undefined, sleep, () => now),
      { code: 'network' },
    )
    t.equal(made, calls, `after ${hours} h`)
  }
})

t.test('the time since attempts that stored nothing does not count', async (t) => {
  const hourMs = 3_600_000
  const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const failures = [
    new TallyhouseError('overloaded', 'Nothing was stored.', { status: 503 }),
    new TallyhouseError('network', 'away', { cause: new TypeError('fetch failed', { cause: refused }) }),
    new TallyhouseError('unexpected_answer', 'A proxy may have forwarded it.', { status: 503 }),
    away(),
  ]
  let now = 0
  let made = 0
  const attempt = async () => {
    throw failures[made++]
  }
  const sleep = () => {
    now += 20 * hourMs
  }
  await t.rejects(
    retry(attempt, AT_ONCE, undefined, sleep, () => now),
    failures[3] as Error,
  )
  t.equal(made, 4)
  const late = { ...AT_ONCE, withinMs: hourMs }
  made = 0
  await t.rejects(
    retry(attempt, late, undefined, sleep, () => now),
    failures[0] as Error,
  )
  t.equal(made, 1, 'a limit of the caller always applies')
})

t.test('pauseMs doubles up to its limit, half at random, and adds Retry-After', async (t) => {
  const policy = { attempts: 9, baseDelayMs: 100, maxDelayMs: 1_000 }
  const longest = [1, 2, 3, 4, 5, 6].map((tries) => pauseMs(policy, tries, null, 1))
  t.strictSame(longest, [100, 200, 400, 800, 1_000, 1_000])
  t.strictSame(
    [1, 2, 3, 4, 5, 6].map((tries) => pauseMs(policy, tries, null, 0)),
    longest.map((ms) => ms / 2),
  )
  t.equal(pauseMs(policy, 1, 600, 0), 650)
  t.equal(pauseMs(policy, 1, 60_000, 0), 1_050, 'no longer than the limit')
  for (let i = 0; i < 100; i++) t.ok(pauseMs(policy, 3) >= 200 && pauseMs(policy, 3) <= 400)
})

t.test('the retry policies last as long as documented', async (t) => {
  const total = ({ attempts, ...policy }: typeof CALL_RETRY) =>
    Array.from({ length: attempts - 1 }, (_, i) => pauseMs({ attempts, ...policy }, i + 1, null, 1)).reduce(
      (a, b) => a + b,
    )
  t.ok(total(CALL_RETRY) <= 31_000)
  t.ok(total(QUEUE_RETRY) <= 50 * 60_000)
})
