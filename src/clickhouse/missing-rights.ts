import type { Log } from '../lib/log.js'
import { isStoreError } from './errors.js'
import type { Shard, Shards } from './shards.js'

/** The system tables that the service reads: about pending deletions, queries, lost parts, memory and disks. */
const READ = [
  'parts',
  'parts_columns',
  'detached_parts',
  'mutations',
  'merge_tree_settings',
  'processes',
  'query_log',
  'server_settings',
  'disks',
  'storage_policies',
]
/** Time limit of the whole check, ms. */
const LIMIT_MS = 5_000

/**
 * Logs for each shard which optional rights its user lacks, and the statement that grants them. Otherwise, an operator
 * would learn of them from the first deletion, or the first block that exceeds the server's memory. Skips a shard that
 * does not respond.
 */
export async function warnOfMissingRights({ all }: Shards, log: Pick<Log, 'warn'>): Promise<void> {
  await Promise.all(
    all.map(async (shard) => {
      const denied = await findDeniedTables(shard)
      if (denied.length === 0) return
      const grant = `GRANT ${denied.map((name) => `SELECT ON system.${name}`).join(', ')}`
      log.warn(
        { shard: shard.name, grant },
        'the user of CLICKHOUSE_URL lacks rights: deleted data may stay on disk, blocks that exceed the memory of ' +
          'ClickHouse may not be divided, disks and the CPU time of reads may not be measured, lost parts may go unnoticed, and facts may be missing; grant the user what `grant` says',
      )
    }),
  )
}

async function findDeniedTables({ clickhouse }: Shard): Promise<string[]> {
  const signal = AbortSignal.timeout(LIMIT_MS)
  const denied = await Promise.all(
    READ.map(async (name) => {
      try {
        await clickhouse.rows(`SELECT 1 FROM system.${name} LIMIT 0`, {}, {}, { signal })
        return []
      } catch (error) {
        return isStoreError(error, 'ACCESS_DENIED') ? [name] : []
      }
    }),
  )
  return denied.flat()
}
