import { statfs } from 'node:fs/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError } from '../clickhouse/errors.js'
import { type Disk, readDisks } from '../store/disks.js'

/**
 * How long the journal and the store may take to be read for a scrape. Less than the time after
 * which the metrics of a process are left out, so that these show which one is unavailable.
 */
export const READING_LIMIT_MS = 700

/** The state of ClickHouse and the free space for data. */
export interface StorageReading {
  /** whether ClickHouse answered a query within 700 ms */
  isStoreUp: boolean
  /** of ClickHouse; empty if it did not respond, or if its user may not read them */
  disks: Disk[]
  /** of the file system of `DATA_DIR`; null if no part is embedded */
  dataDir: { freeBytes: number; totalBytes: number } | null
}

/** @param dataDir the folder of the embedded parts; null if there are none */
export async function readStorage(clickhouse: ClickHouse, dataDir: string | null): Promise<StorageReading> {
  const [disks, space] = await Promise.all([
    readDisks(clickhouse, AbortSignal.timeout(READING_LIMIT_MS)).catch((error: unknown) => {
      // A user without rights to system.disks can still use the store.
      return isStoreError(error, 'ACCESS_DENIED') ? [] : null
    }),
    dataDir === null ? null : statfs(dataDir).catch(() => null),
  ])
  return {
    isStoreUp: disks !== null,
    disks: disks ?? [],
    // `bavail` excludes the blocks reserved for root.
    dataDir: space && { freeBytes: space.bavail * space.bsize, totalBytes: space.blocks * space.bsize },
  }
}
