import type { ClickHouse } from '../clickhouse/client.js'
import { StoreUnreachableError } from '../clickhouse/errors.js'
import { migrate } from '../clickhouse/migrate.js'
import { checkIdentities, findNumberedShards } from '../clickhouse/shard-identity.js'
import type { Shard, Shards } from '../clickhouse/shards.js'
import { createAllTables } from './distributed.js'

/**
 * Gives every shard the tables of this version, and checks that they are one store. Services may start at the same
 * time.
 * @throws SchemaError, ShardsError if a retry cannot help; ShardUnreachableError, StoreUnreachableError, StoreError
 */
export async function prepareShards(shards: Shards): Promise<void> {
  const { failure } = await prepareAvailable(shards)
  if (failure) throw failure
}

/**
 * Like `prepareShards`, but allows for shards that are down, so that the lanes of the others can already be stored.
 * @returns the shards that are ready, and the error of one that is not, or null if all are ready. While a shard is
 * down, a shard that is new to the store is not ready
 * @throws like `prepareShards`, except for a shard that is down, unless it is the first, which has the keys and the
 *   layout
 */
export async function prepareAvailable(shards: Shards): Promise<{ ready: readonly Shard[]; failure: Error | null }> {
  const prepare = async ({ clickhouse }: Shard) => {
    if (shards.areSeveral) await assertUp(clickhouse)
    await migrate(clickhouse)
  }
  const results = await Promise.allSettled(shards.all.map((shard) => shards.on(shard, prepare)))
  let failure: Error | null = null
  for (const result of results) {
    if (result.status === 'fulfilled') continue
    if (!(result.reason instanceof StoreUnreachableError)) throw result.reason
    failure ??= result.reason
  }
  if (failure) {
    if (results[0]?.status === 'rejected') throw results[0].reason
    const migrated = shards.all.filter(({ number }) => results[number]?.status === 'fulfilled')
    return { ready: await findNumberedShards(migrated), failure }
  }
  await checkIdentities(shards)
  if (shards.areSeveral) await createAllTables(shards)
  return { ready: shards.all, failure }
}

/**
 * Detects a shard that drops every packet within 2 s; a statement would take 30.
 * @throws StoreUnreachableError
 */
async function assertUp(clickhouse: ClickHouse): Promise<void> {
  await clickhouse.ping().catch((error: unknown) => {
    // A new shard has no database yet.
    if (error instanceof StoreUnreachableError) throw error
  })
}
