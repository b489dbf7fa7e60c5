import type { ClickHouse } from '../clickhouse/client.js'
import { isStoreError } from '../clickhouse/errors.js'
import type { Shard, Shards } from '../clickhouse/shards.js'

/** A disk of ClickHouse, with the sizes that ClickHouse reports. */
interface Disk {
  name: string
  freeBytes: number
  totalBytes: number
}

/** The disks of one shard. */
export interface ShardDisks {
  shard: Shard
  /** whether it responded before the signal */
  isUp: boolean
  /** empty if it did not respond, or if the user of the connection may not read system.disks */
  disks: Disk[]
}

/** Reads the disks of every shard; a shard that is down does not affect the others. */
export async function readDisks(shards: Shards, signal: AbortSignal): Promise<ShardDisks[]> {
  return await Promise.all(shards.all.map((shard) => readShardDisks(shard, signal)))
}

async function readShardDisks(shard: Shard, signal: AbortSignal): Promise<ShardDisks> {
  try {
    const rows = await shard.clickhouse.rows<{ name: string; free: string; total: string }>(
      'SELECT name, free_space AS free, total_space AS total FROM system.disks',
      {},
      {},
      { signal },
    )
    const disks = rows.map(({ name, free, total }) => ({ name, freeBytes: Number(free), totalBytes: Number(total) }))
    return { shard, isUp: true, disks }
  } catch (error) {
    // A user without rights to system.disks can still use the store.
    return { shard, isUp: isStoreError(error, 'ACCESS_DENIED'), disks: [] }
  }
}

/** The size of a shard. */
export interface ShardSize {
  /** rows of `events`, including deleted ones that are still on the disk */
  rows: number
  /** bytes of all tables on disk */
  bytes: number
}

export async function readShardSize(clickhouse: ClickHouse): Promise<ShardSize> {
  const [row] = await clickhouse.rows<{ rows: string; bytes: string }>(
    `SELECT sumIf(rows, table = 'events' AND NOT startsWith(partition_id, 'patch-')) AS rows, sum(bytes_on_disk) AS bytes
     FROM system.parts WHERE active AND database = currentDatabase()`,
  )
  return { rows: Number(row?.rows ?? 0), bytes: Number(row?.bytes ?? 0) }
}
