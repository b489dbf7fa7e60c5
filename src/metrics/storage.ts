import { statfs } from 'node:fs/promises'
import type { Shards } from '../clickhouse/shards.js'
import { readDisks, type ShardDisks } from '../store/disks.js'

/**
 * How long the journal and the store may take to be read for a scrape. Less than the time after which the metrics of a
 * process are left out, so that they show which part is unavailable.
 */
export const READING_LIMIT_MS = 700

/** The state of ClickHouse and the free space for data. */
export interface StorageReading {
  /** by number */
  shards: ShardDisks[]
  /** space on the file system of `DATA_DIR`; null if no part is embedded */
  dataDir: { freeBytes: number; totalBytes: number } | null
  /** see `OwnStore.hasPriorities` */
  hasPriorities: boolean | null
}

/** @param dataDir the folder of the embedded parts; null if there are none */
export async function readStorage(
  { shards, hasPriorities }: { shards: Shards; hasPriorities: boolean | null },
  dataDir: string | null,
): Promise<StorageReading> {
  const [read, space] = await Promise.all([
    readDisks(shards, AbortSignal.timeout(READING_LIMIT_MS)),
    dataDir === null ? null : statfs(dataDir).catch(() => null),
  ])
  return {
    shards: read,
    hasPriorities,
    // `bavail` excludes the blocks reserved for root.
    dataDir: space && { freeBytes: space.bavail * space.bsize, totalBytes: space.blocks * space.bsize },
  }
}
