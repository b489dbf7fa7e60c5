import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Config, usesDataDir } from '../config.js'
import { CloseStack } from '../lib/close-stack.js'
import type { Log } from '../lib/log.js'
import type { ClickHouse } from './client.js'
import { lockDataFolder } from './embedded/data-dir.js'
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from './embedded/engine.js'
import { canSetPriorities } from './embedded/priorities.js'
import { openShards, type ReadingOptions } from './open-shards.js'
import type { Shards } from './shards.js'

/** ClickHouse, opened by the process that owns the data folder. */
export interface OwnStore {
  shards: Shards
  /** the first shard */
  clickhouse: ClickHouse
  /** URL of all shards, including the password; stays the same when the embedded engine restarts */
  url: string
  /** whether the embedded engine can lower the priority of queries; null if unknown, as for a server */
  hasPriorities: boolean | null
  /** @throws if ClickHouse is unavailable, or the embedded engine is not up */
  ping(): Promise<void>
  close(): Promise<void>
}

export interface OwnStoreOptions extends ReadingOptions {
  /** default: none */
  log?: Pick<Log, 'info' | 'warn' | 'error'>
  /** whether missing folders are an error; by default, they are created */
  mustExist?: boolean
  /** whether commands may use the embedded engine too, while this process runs (default true) */
  isShared?: boolean
}

const NO_PRIORITIES =
  'queries and merges do not yield to events, because the process lacks CAP_SYS_NICE: docs/operations.md, Tuning, says how to grant it'

/** A log that drops everything. */
export const QUIET = { info() {}, warn() {}, error() {} }
/** The settings that select a store, for messages. */
export const SETTINGS = 'CLICKHOUSE_URL or DATA_DIR as for the service'

/**
 * Opens ClickHouse as the service does: connects to CLICKHOUSE_URL, or else starts the embedded
 * engine in DATA_DIR. Locks DATA_DIR if the journal or ClickHouse is embedded. Does not wait for a
 * server, nor migrate it.
 * @throws FolderInUseError, the error of an embedded engine that cannot start, or Error if there is
 *   no store and `mustExist`
 */
export async function openOwnStore(
  config: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'> & Partial<Pick<Config, 'REDIS_URL' | 'CLICKHOUSE_CLUSTER'>>,
  { log = QUIET, mustExist = false, isShared = true, ...reading }: OwnStoreOptions,
): Promise<OwnStore> {
  const { CLICKHOUSE_URL, DATA_DIR } = config
  const parts = new CloseStack()
  try {
    const isLocal = usesDataDir(config)
    // Check this before locking, which creates the folder.
    if (isLocal && mustExist) await requireFolder(DATA_DIR, DATA_DIR)
    const folder = isLocal ? await lockDataFolder(DATA_DIR) : null
    if (folder) parts.add({ close: folder.release })
    let engine: EmbeddedClickHouse | null = null
    let hasPriorities: boolean | null = null
    if (CLICKHOUSE_URL === undefined) {
      const path = join(DATA_DIR, 'clickhouse')
      if (mustExist) await requireFolder(path, DATA_DIR)
      engine = parts.add(await startEmbeddedClickHouse({ path, log }))
      hasPriorities = await canSetPriorities(engine.pid())
      if (hasPriorities === false) log.info(NO_PRIORITIES)
      if (isShared) await folder?.announce(engine.url)
    }
    const url = CLICKHOUSE_URL ?? engine?.url ?? ''
    const shards = parts.add(openShards(url, { cluster: config.CLICKHOUSE_CLUSTER, log, ...reading }))
    return {
      shards,
      clickhouse: shards.first,
      url,
      hasPriorities,
      ping: () => ping(shards, engine),
      close: () => parts.close(),
    }
  } catch (error) {
    await parts.close()
    throw error
  }
}

async function requireFolder(path: string, dataDir: string): Promise<void> {
  const isThere = await stat(path).then(
    () => true,
    () => false,
  )
  if (isThere) return
  throw new Error(
    `There is no store in ${resolve(dataDir)}. Run the command where the service runs, set ${SETTINGS}, or start the service first.`,
  )
}

async function ping(shards: Shards, engine: EmbeddedClickHouse | null): Promise<void> {
  if (engine && engine.state() !== 'up') throw new Error(`the embedded ClickHouse is ${engine.state()}`)
  await shards.each(({ clickhouse }) => clickhouse.ping())
}
