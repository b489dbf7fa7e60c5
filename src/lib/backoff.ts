import { setTimeout as wait } from 'node:timers/promises'

/** Pauses between retries: they double from `firstMs` up to `maxMs`. */
export interface Backoff {
  firstMs: number
  maxMs: number
}

export interface RetryOptions {
  backoff: Backoff
  /** ends the retries; an attempt in flight is not aborted */
  signal: AbortSignal
  /** failures so far; with 1 or more, the first attempt comes after a pause (default 0) */
  failures?: number
  /** whether another attempt may succeed; default: always */
  isRetryable?(error: unknown): boolean
  /** called for each failed attempt that is retried, with the pause before the next one */
  onFailure?(error: unknown, next: { failures: number; retryMs: number }): void
}

/**
 * The pause before the next attempt, in whole ms. Half of it is random, so that processes that failed together do not
 * retry together.
 * @param failures in a row, 1 or more
 * @param random from 0 to 1
 */
export function backoffMs({ firstMs, maxMs }: Backoff, failures: number, random = Math.random()): number {
  return Math.round((Math.min(firstMs * 2 ** (failures - 1), maxMs) / 2) * (1 + random))
}

/**
 * Retries without limit until an attempt succeeds.
 * @returns false if the signal aborted first; then the last attempt failed, or there was none
 * @throws the error of an attempt that is not retryable
 */
export async function retry(attempt: () => Promise<unknown>, options: RetryOptions): Promise<boolean> {
  const { backoff, signal, isRetryable = () => true, onFailure } = options
  let failures = options.failures ?? 0
  if (failures > 0) await elapsed(backoffMs(backoff, failures), signal)
  while (!signal.aborted) {
    try {
      await attempt()
      return true
    } catch (error) {
      if (signal.aborted) return false
      if (!isRetryable(error)) throw error
      const retryMs = backoffMs(backoff, ++failures)
      onFailure?.(error, { failures, retryMs })
      await elapsed(retryMs, signal)
    }
  }
  return false
}

/** Resolves after the time, or when the signal aborts. */
async function elapsed(ms: number, signal: AbortSignal): Promise<void> {
  await wait(ms, undefined, { signal }).catch(() => undefined)
}
