import { resolve } from 'node:path'
import { openOwnStore } from '../../clickhouse/own-store.js'
import type { Config } from '../../config.js'
import { CloseStack } from '../../lib/close-stack.js'
import { describePlace, type OpenStore, openStore, requireTables } from '../../store/open.js'
import { prepareShards } from '../../store/prepare-shards.js'

/**
 * Opens the store for a change of its lanes. With the embedded journal, the service must be stopped; with Redis, it
 * may be running.
 * @throws FolderInUseError, and the errors of `openStore`
 */
export async function openLaneStore(config: Config): Promise<OpenStore> {
  const { REDIS_URL, CLICKHOUSE_URL, DATA_DIR } = config
  if (REDIS_URL !== undefined) return await openStore(config)
  const parts = new CloseStack()
  try {
    const { shards, clickhouse } = parts.add(await openOwnStore(config, { mustExist: true, isShared: false }))
    const place = CLICKHOUSE_URL === undefined ? resolve(DATA_DIR) : describePlace(CLICKHOUSE_URL)
    await requireTables({ clickhouse, place })
    await prepareShards(shards)
    return { shards, clickhouse, place, close: () => parts.close() }
  } catch (error) {
    await parts.close()
    throw error
  }
}
