import { ApiError } from '../contract/errors.js'
import { type Backoff, retry } from '../lib/backoff.js'
import type { Log } from '../lib/log.js'
import { isFatal } from './errors.js'

const UNAVAILABLE = {
  ClickHouse: 'ClickHouse is unavailable; accepted events wait in the journal',
  'the journal': 'the journal is unavailable; the start is retried',
}

const BACKOFF: Backoff = { firstMs: 500, maxMs: 2_000 }

export interface WhenAvailableOptions {
  log: Pick<Log, 'info' | 'warn'>
  /** ends the retries */
  signal: AbortSignal
  /**
   * called if a retry fails for a reason that retrying cannot help, such as a schema that is too
   * new
   */
  onFatal(error: unknown): void
}

/**
 * Runs a task that needs ClickHouse and the journal. Resolves after the first attempt: if one of them is
 * unavailable, the task is retried in the background. Logs each failed attempt, and the recovery.
 * @throws the error of the first attempt, if retrying cannot help
 */
export async function whenAvailable(
  task: () => Promise<void>,
  { log, signal, onFatal }: WhenAvailableOptions,
): Promise<void> {
  try {
    await task()
  } catch (error) {
    if (isFatal(error)) throw error
    const missing = missingPart(error)
    log.warn({ err: error }, UNAVAILABLE[missing])
    retry(task, {
      backoff: BACKOFF,
      signal,
      failures: 1,
      isRetryable: (error) => !isFatal(error),
      onFailure: (error, next) => log.warn({ err: error, ...next }, `${missingPart(error)} is still unavailable`),
    }).then((isDone) => {
      if (isDone) log.info(`${missing} is available again`)
    }, onFatal)
  }
}

/** Only the journal throws errors of the contract. */
function missingPart(error: unknown): keyof typeof UNAVAILABLE {
  return error instanceof ApiError ? 'the journal' : 'ClickHouse'
}
