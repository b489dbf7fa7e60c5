import type { ClickHouse } from '../clickhouse/client.js'

/** A disk that ClickHouse keeps data on, as it counts its bytes. */
export interface Disk {
  name: string
  freeBytes: number
  totalBytes: number
}

/**
 * @returns none if the user of the connection may not see them
 * @throws StoreUnreachableError if there is no result before the signal
 */
export async function readDisks(clickhouse: ClickHouse, signal: AbortSignal): Promise<Disk[]> {
  const rows = await clickhouse.rows<{ name: string; free: string; total: string }>(
    'SELECT name, free_space AS free, total_space AS total FROM system.disks',
    {},
    {},
    { signal },
  )
  return rows.map(({ name, free, total }) => ({ name, freeBytes: Number(free), totalBytes: Number(total) }))
}
