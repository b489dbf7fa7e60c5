import { join } from 'node:path'
import { type Config, usesDataDir } from '../config.js'
import { CloseStack } from '../lib/close-stack.js'
import type { Log } from '../lib/log.js'
import { ClickHouse } from './client.js'
import { lockDataFolder } from './embedded/data-dir.js'
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from './embedded/engine.js'
import type { SlotLimits } from './read-slots.js'

/** ClickHouse, opened by the process that owns the data folder. */
export interface OwnStore {
  clickhouse: ClickHouse
  /** password included; stays the same when the embedded engine restarts */
  url: string
  /** @throws if ClickHouse is unavailable, or the embedded engine is not up */
  ping(): Promise<void>
  close(): Promise<void>
}

/**
 * Opens ClickHouse as the service does: connects to CLICKHOUSE_URL, or else starts the embedded engine in DATA_DIR. Locks
 * DATA_DIR if the journal or ClickHouse is embedded. Does not wait for a server, nor migrate it.
 * @throws FolderInUseError, or the error of an embedded engine that cannot start
 */
export async function openOwnStore(
  config: Config,
  { log, slotLimits }: { log: Pick<Log, 'info' | 'warn' | 'error'>; slotLimits?: SlotLimits | undefined },
): Promise<OwnStore> {
  const parts = new CloseStack()
  try {
    const folder = usesDataDir(config) ? await lockDataFolder(config.DATA_DIR) : null
    if (folder) parts.add({ close: folder.release })
    let engine: EmbeddedClickHouse | null = null
    if (config.CLICKHOUSE_URL === undefined) {
      engine = parts.add(await startEmbeddedClickHouse({ path: join(config.DATA_DIR, 'clickhouse'), log }))
      await folder?.announce(engine.url)
    }
    const url = config.CLICKHOUSE_URL ?? engine?.url ?? ''
    const clickhouse = parts.add(new ClickHouse({ url, ...(slotLimits && { slotLimits }) }))
    return { clickhouse, url, ping: () => ping(clickhouse, engine), close: () => parts.close() }
  } catch (error) {
    await parts.close()
    throw error
  }
}

async function ping(clickhouse: ClickHouse, engine: EmbeddedClickHouse | null): Promise<void> {
  if (engine && engine.state() !== 'up') throw new Error(`the embedded ClickHouse is ${engine.state()}`)
  await clickhouse.ping()
}
