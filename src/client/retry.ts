import { setTimeout as wait } from 'node:timers/promises'
import { TallyhouseError } from './errors.js'

export interface RetryPolicy {
  /** attempts in all, including the first one */
  attempts: number
  /**
   * the longest pause before the second attempt, in milliseconds; doubles with each further one
   */
  baseDelayMs: number
  /** limit of the backoff, and of a `Retry-After` that the service asks for, in milliseconds */
  maxDelayMs: number
  /**
   * no attempt begins later than this after the first one, in milliseconds; default: 23 h after the first one that may
   * have been carried out, because the service then forgets its `Idempotency-Key`
   */
  withinMs?: number
  /**
   * a failure is final if the service asks for a longer pause, in milliseconds, as for a quota that resets next month;
   * default: none is
   */
  maxRetryAfterMs?: number
}

/** The service remembers an `Idempotency-Key` for 24 h. This leaves an hour for clock differences. */
export const KEY_LIFE_MS = 23 * 60 * 60 * 1000

/** For calls that someone waits for: at most half a minute of pauses. */
export const CALL_RETRY: RetryPolicy = { attempts: 8, baseDelayMs: 250, maxDelayMs: 15_000, maxRetryAfterMs: 120_000 }

/** For queued events, which nobody waits for and which exist nowhere else: about 50 minutes of pauses. */
export const QUEUE_RETRY: RetryPolicy = {
  attempts: 100,
  baseDelayMs: 250,
  maxDelayMs: 30_000,
  maxRetryAfterMs: 3_600_000,
}

/**
 * Statuses below 500 after which the same request can succeed. From 500 on it always can, because proxies use various
 * statuses while a service restarts, such as 502, 504, and Cloudflare's 520 to 530.
 */
const RETRYABLE_STATUS = new Set([408, 429])
/** Statuses that mean that the service did not carry out the request. */
const NOTHING_DONE_STATUS = new Set([408, 429, 503])
const RETRYABLE_CODES = new Set<string>(['network', 'timeout'])
/** Errors of Node before there is a connection, so that nothing was sent. */
const NOT_CONNECTED_CODES = new Set<unknown>([
  ...['ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'ENETUNREACH', 'EHOSTUNREACH'],
  'UND_ERR_CONNECT_TIMEOUT',
])

/** Whether a retry can help. Retry only idempotent requests; some changes need an `Idempotency-Key` for that. */
export function isRetryable(error: unknown): error is TallyhouseError {
  if (!(error instanceof TallyhouseError)) return false
  if (error.status === null) return RETRYABLE_CODES.has(error.code)
  // Only an operator can help.
  if (error.code === 'store_damaged') return false
  return error.status >= 500 || RETRYABLE_STATUS.has(error.status)
}

/** Whether the service may have carried out the request, although the call failed. */
export function mayBeDone(error: unknown): boolean {
  if (!isRetryable(error) || isNotConnected(error.cause)) return false
  // A proxy may have forwarded the request before it failed.
  return error.code === 'unexpected_answer' || !NOTHING_DONE_STATUS.has(error.status ?? 0)
}

/** @param error of `fetch`, whose causes say what happened */
function isNotConnected(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return 'code' in error ? NOT_CONNECTED_CODES.has(error.code) : isNotConnected(error.cause)
}

/**
 * Retries until an attempt succeeds, fails permanently, or none is left or in time.
 * @param attempt must send the same bytes with the same key each time
 * @param onRetry called with the error before the pause of each further attempt
 * @param now a clock that goes on while the machine is suspended, unlike `performance.now`
 * @throws what the last attempt threw; TallyhouseError `aborted` if the signal ends a pause
 */
export async function retry<T>(
  attempt: () => Promise<T>,
  policy: RetryPolicy,
  signal?: AbortSignal,
  onRetry?: (error: TallyhouseError) => void,
  now: () => number = Date.now,
): Promise<T> {
  const { attempts, maxRetryAfterMs = Number.POSITIVE_INFINITY, withinMs } = policy
  let until = now() + (withinMs ?? Number.POSITIVE_INFINITY)
  for (let failures = 1; ; failures++) {
    const begunAt = now()
    try {
      return await attempt()
    } catch (error) {
      if (!isRetryable(error) || failures >= attempts) throw error
      if ((error.retryAfterMs ?? 0) > maxRetryAfterMs) throw error
      // A request that was not carried out has left no key, however long ago that was.
      if (withinMs === undefined && mayBeDone(error)) until = Math.min(until, begunAt + KEY_LIFE_MS)
      const pause = pauseMs(policy, failures, error.retryAfterMs)
      if (now() + pause > until) throw error
      onRetry?.(error)
      await wait(pause, undefined, { ...(signal && { signal }) }).catch(() => {
        throw new TallyhouseError('aborted', 'The call was aborted between two attempts.', { cause: error })
      })
      // The machine may have been suspended in the meantime.
      if (now() > until) throw error
    }
  }
}

/**
 * Returns the pause before a retry: exponential backoff, half of it random so that clients that failed together do
 * not retry together, in addition to the pause that the service asked for.
 * @param failures number of failed attempts so far
 * @param random from 0 to 1
 */
export function pauseMs(
  { baseDelayMs, maxDelayMs }: RetryPolicy,
  failures: number,
  retryAfterMs: number | null = null,
  random = Math.random(),
): number {
  const backoff = Math.min(maxDelayMs, baseDelayMs * 2 ** (failures - 1))
  return Math.min(retryAfterMs ?? 0, maxDelayMs) + (backoff / 2) * (1 + random)
}
