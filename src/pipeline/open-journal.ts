import { join } from 'node:path'
import type { ClickHouse } from '../clickhouse/client.js'
import type { Config } from '../config.js'
import type { Journal } from '../journal/journal.js'
import type { Log } from '../lib/log.js'
import type { Position } from '../model/position.js'
import { lastPositionOfAll } from '../store/journals.js'

/**
 * Opens the journal that the configuration selects: Redis with REDIS_URL, else LMDB in DATA_DIR.
 * Only the selected one is loaded, as LMDB is an optional package.
 * @param clickhouse where a Redis journal that lost its data looks up the last stored position
 * @throws Error that says what to do, if the embedded journal is not installed
 */
export async function openJournal(config: Config, log: Log, clickhouse: ClickHouse): Promise<Journal> {
  const limits = { maxBytes: config.JOURNAL_MAX_BYTES, maxRequestKeys: config.MAX_IDEMPOTENCY_KEYS }
  if (config.REDIS_URL !== undefined) {
    const { openRedisJournal } = await import('../journal/redis/journal.js')
    return await openRedisJournal({
      url: config.REDIS_URL,
      ...limits,
      replicas: config.REDIS_REPLICAS,
      lastStored: (from: Position) => lastPositionOfAll(clickhouse, from),
      log,
    })
  }
  const { openLmdbJournal } = await import('../journal/lmdb/journal.js').catch((error: Error) => {
    const reason = error.message.split('\n')[0]
    throw new Error(
      `The embedded journal cannot be loaded (${reason}). Install the optional packages, or set REDIS_URL.`,
    )
  })
  return await openLmdbJournal({ path: join(config.DATA_DIR, 'journal'), ...limits })
}
