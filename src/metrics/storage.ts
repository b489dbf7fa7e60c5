import { statfs } from 'node:fs/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError } from '../clickhouse/errors.js'
import { type Disk, readDisks } from '../store/disks.js'

/** Well within the 10 s that Prometheus waits for a scrape. */
const STORE_LIMIT_MS = 2_000
/** What data is kept on, as it is now. */
export interface StorageReading {
  /** whether ClickHouse answered a query within 2 s */
  isStoreUp: boolean
  /** ClickHouse's; none where it did not answer, or does not tell */
  disks: Disk[]
  /** of the file system that `DATA_DIR` is on; null where nothing is kept there */
  dataDir: { freeBytes: number; totalBytes: number } | null
}

/** @param dataDir the folder of the embedded parts, null where there are none */
export async function readStorage(clickhouse: ClickHouse, dataDir: string | null): Promise<StorageReading> {
  const [disks, space] = await Promise.all([
    readDisks(clickhouse, AbortSignal.timeout(STORE_LIMIT_MS)).catch((error: unknown) => {
      // A user without rights to system.disks can use the store all the same.
      return isStoreError(error, 'ACCESS_DENIED') ? [] : null
    }),
    dataDir === null ? null : statfs(dataDir).catch(() => null),
  ])
  return {
    isStoreUp: disks !== null,
    disks: disks ?? [],
    // What is kept for root is not free to the service.
    dataDir: space && { freeBytes: space.bavail * space.bsize, totalBytes: space.blocks * space.bsize },
  }
}
