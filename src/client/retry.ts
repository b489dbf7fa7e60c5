import { setTimeout as wait } from 'node:timers/promises'
import { TallyhouseError } from './errors.js'

export interface RetryPolicy {
  /** tries in all, the first one included */
  attempts: number
  /** the longest pause before the second try, in milliseconds; it doubles with each further one */
  baseDelayMs: number
  /** no back-off is longer; neither is a wait that a `Retry-After` asks for */
  maxDelayMs: number
}

/** For a call that somebody waits for: at most half a minute of pauses. */
export const CALL_RETRY: RetryPolicy = { attempts: 8, baseDelayMs: 250, maxDelayMs: 15_000 }

/**
 * For data that nobody waits for and that are nowhere else: about 50 minutes of pauses. It ends well within the 24 hours
 * for which the service knows an `Idempotency-Key`.
 */
export const QUEUE_RETRY: RetryPolicy = { attempts: 100, baseDelayMs: 250, maxDelayMs: 30_000 }

/** Answers after which the same request can succeed; those of a proxy (502, 504) too, which may come from a restart. */
const RETRYABLE_STATUS = new Set([408, 429, 500, 502, 503, 504])
/** Of these, the ones with which the service says that it has done nothing. */
const NOTHING_DONE_STATUS = new Set([408, 429, 503])
const RETRYABLE_WITHOUT_ANSWER = new Set<string>(['network', 'timeout'])

/** Whether trying again can help. Only what may be repeated is to be tried again: a change needs an `Idempotency-Key`. */
export function isRetryable(error: unknown): error is TallyhouseError {
  if (!(error instanceof TallyhouseError)) return false
  return error.status === null ? RETRYABLE_WITHOUT_ANSWER.has(error.code) : RETRYABLE_STATUS.has(error.status)
}

/** Whether the service may have done what it was asked, although the call failed. */
export function mayBeDone(error: unknown): boolean {
  return isRetryable(error) && !NOTHING_DONE_STATUS.has(error.status ?? 0)
}

/**
 * Tries until it succeeds, fails for good, or the tries are used up.
 * @param attempt is to send the same bytes with the same key each time
 * @throws what the last try threw; TallyhouseError `aborted` where the signal ends a pause
 */
export async function retry<T>(attempt: () => Promise<T>, policy: RetryPolicy, signal?: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt()
    } catch (error) {
      if (!isRetryable(error) || tries >= policy.attempts) throw error
      await wait(pauseMs(policy, tries, error.retryAfterMs), undefined, { ...(signal && { signal }) }).catch(() => {
        throw new TallyhouseError('aborted', 'The call was aborted between two tries.', { cause: error })
      })
    }
  }
}

/**
 * Exponential back-off of which one half is random, so that clients that failed together do not return together; on top
 * of what the server asked for.
 * @param tries made so far
 * @param random from 0 to 1
 */
export function pauseMs(
  { baseDelayMs, maxDelayMs }: RetryPolicy,
  tries: number,
  retryAfterMs: number | null = null,
  random = Math.random(),
): number {
  const backoff = Math.min(maxDelayMs, baseDelayMs * 2 ** (tries - 1))
  return Math.min(retryAfterMs ?? 0, maxDelayMs) + (backoff / 2) * (1 + random)
}
