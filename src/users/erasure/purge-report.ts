import { setTimeout as wait } from 'node:timers/promises'
import { ShardUnreachableError } from '../../clickhouse/errors.js'
import type { Log } from '../../lib/log.js'
import { DiskSpaceError } from '../../store/rewrite.js'
import type { Purge } from './purge.js'

/** A purge that takes longer continues after the response. */
const PURGE_WAIT_MS = 10_000
const DISK_IS_FULL =
  'The disk of ClickHouse is too full to rewrite the data: free space or enlarge it. The log of the service says how much is needed. The service retries on its own.'
const NOT_PURGED = 'ClickHouse could not rewrite the data; see the log of the service. The service retries on its own.'

/**
 * When the deleted data has left the disk, epoch ms, if that is known by now; and why it is still there if the purge
 * fails.
 */
export interface PurgeReport {
  gone_at: number | null
  purge_error: string | null
}

/** Purges the data deleted before the call, and reports the progress after a few seconds at the latest. */
export async function purgeAndReport(
  purge: Pick<Purge, 'now'>,
  projectId: string,
  log: Pick<Log, 'warn'>,
): Promise<PurgeReport> {
  let purge_error: string | null = null
  const purged = purge.now(projectId).catch((error) => {
    log.warn({ err: error }, 'erased data is hidden, but still on disk; retrying later')
    purge_error = describePurgeError(error)
    return null
  })
  const gone_at = await Promise.race([purged, wait(PURGE_WAIT_MS, null, { ref: false })])
  return { gone_at, purge_error }
}

function describePurgeError(error: unknown): string {
  if (error instanceof DiskSpaceError) return DISK_IS_FULL
  if (error instanceof ShardUnreachableError) return `${error.message} The service retries on its own.`
  return NOT_PURGED
}
