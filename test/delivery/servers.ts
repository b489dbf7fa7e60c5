import { readFile } from 'node:fs/promises'
import type { Journal } from '../../src/journal/journal.js'
import { openLmdbJournal } from '../../src/journal/lmdb/journal.js'
import { openRedisJournal } from '../../src/journal/redis/journal.js'
import {
  PUBLIC_KEY,
  type RedisServer,
  randomName,
  type Scope,
  SECRET_KEY,
  silent,
  startRedis,
  temporaryFolder,
} from '../helper.js'

export const JOURNALS = ['lmdb', 'redis'] as const
export type JournalKind = (typeof JOURNALS)[number]

/** Settings of a service with a journal of its own; ClickHouse is the embedded one unless it is set too. */
export async function journalFor(
  t: Scope,
  kind: JournalKind,
): Promise<{ settings: Record<string, string>; dataDir: string; redis: RedisServer | null }> {
  const redis = kind === 'redis' ? await startRedis(t) : null
  const dataDir = await temporaryFolder(t)
  const settings = {
    PUBLIC_API_KEY: PUBLIC_KEY,
    SECRET_KEY,
    LOG_LEVEL: 'silent',
    DATA_DIR: dataDir,
    ...(redis && { REDIS_URL: redis.url }),
  }
  return { settings, dataDir, redis }
}

/** A journal without a service. */
export async function openJournal(t: Scope, kind: JournalKind): Promise<Journal> {
  const maxBytes = 1e9
  const journal =
    kind === 'redis'
      ? await openRedisJournal({ url: (await startRedis(t)).url, maxBytes, log: silent })
      : await openLmdbJournal({ path: await temporaryFolder(t), maxBytes })
  t.teardown(() => journal.close())
  return journal
}

/** Text in the URL of an INSERT of a block of events, and of no other request that the tests cause. */
export const BLOCK = 'deduplicate_insert_select'

/** A database of its own in a ClickHouse that the tests of a file share. */
export function databaseOf(clickhouseUrl: string): string {
  const url = new URL(clickhouseUrl)
  url.pathname = `/${randomName('delivery').replace('-', '_')}`
  return url.href
}

/** The process of a service's embedded ClickHouse, from the file in which ClickHouse itself notes it. */
export async function enginePid(dataDir: string): Promise<number> {
  const status = await readFile(`${dataDir}/clickhouse/status`, 'utf8')
  return Number(/^PID: (\d+)/m.exec(status)?.[1])
}
