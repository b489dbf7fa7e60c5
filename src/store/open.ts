import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { WITHOUT_DATABASE } from '../clickhouse/connection.js'
import { FolderInUseError } from '../clickhouse/embedded/data-dir.js'
import { startEmbeddedClickHouse } from '../clickhouse/embedded/engine.js'
import { openShards } from '../clickhouse/open-shards.js'
import { openOwnStore, QUIET, SETTINGS } from '../clickhouse/own-store.js'
import type { Shards } from '../clickhouse/shards.js'
import { type Config, shardUrls } from '../config.js'
import { prepareAvailable, prepareShards } from './prepare-shards.js'

/** How long the owner of the data folder may take to start its engine, or to exit. */
const OWNER_LIMIT_MS = 10_000
const PAUSE_MS = 50

export interface OpenStore {
  shards: Shards
  /** the first shard */
  clickhouse: ClickHouse
  /** the folder, or the server and the database without the password, for messages */
  place: string
  /** Stops what `openStore` started; the engine of a running service keeps running. */
  close(): Promise<void>
}

/**
 * Opens the store for a command, with or without a running service, and migrates it. The store is the server of
 * CLICKHOUSE_URL; without that, the embedded engine of the service that owns DATA_DIR; if no service owns the folder,
 * an engine that this process starts and that owns it until `close`. Only the service creates a store: a command in the
 * wrong folder must not work on an empty one.
 *
 * Not promised: when a service stops, its engine stops too, even if a command uses it. While a command owns the folder,
 * no service can start.
 *
 * @param options `areAllNeeded`: whether a shard other than the first that is down is an error; default true
 * @throws Error that says what to do, if there is no store, or if the owner's engine does not respond within
 *   `ownerLimitMs`
 * @throws SchemaError, StoreError, StoreUnreachableError if the store cannot be used
 */
export async function openStore(
  config: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'> & Partial<Pick<Config, 'CLICKHOUSE_CLUSTER'>>,
  { ownerLimitMs = OWNER_LIMIT_MS, areAllNeeded = true } = {},
): Promise<OpenStore> {
  const store =
    config.CLICKHOUSE_URL === undefined
      ? await openEmbedded(config.DATA_DIR, ownerLimitMs)
      : connect(config.CLICKHOUSE_URL, describePlace(config.CLICKHOUSE_URL), config.CLICKHOUSE_CLUSTER)
  try {
    if (config.CLICKHOUSE_URL !== undefined) await requireTables(store)
    await (areAllNeeded ? prepareShards : prepareAvailable)(store.shards)
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

/**
 * Opens the store for a command that needs it alone, and migrates it. A data folder is locked until `close`; with
 * servers, the caller must check that no service uses them.
 * @param mustExist whether a missing store is an error; by default, it is created
 * @throws FolderInUseError, and the errors of `openStore`
 */
export async function openStoreAlone(config: Config, { mustExist = false }): Promise<OpenStore> {
  const { CLICKHOUSE_URL, DATA_DIR } = config
  const { shards, clickhouse, close } = await openOwnStore(config, { mustExist, isShared: false })
  const place = CLICKHOUSE_URL === undefined ? resolve(DATA_DIR) : describePlace(CLICKHOUSE_URL)
  try {
    if (mustExist) await requireTables({ clickhouse, place })
    await prepareShards(shards)
    return { shards, clickhouse, place, close }
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * Starts an engine without tables, whose `file()` reads the files of a folder. Queries run with the rights of this
 * process, so they can read other files, too.
 * @throws Error that says what to do, if there is no such folder, or if the engine cannot be started
 */
export async function openFiles(folder: string): Promise<OpenStore> {
  const files = resolve(folder)
  const found = await stat(files).catch(() => null)
  if (!found?.isDirectory()) throw new Error(`${files} is not a folder. Name the folder of the files.`)
  const path = await mkdtemp(join(tmpdir(), 'tallyhouse-files-'))
  const remove = () => rm(path, { recursive: true, force: true })
  try {
    const engine = await startEmbeddedClickHouse({ path, files, log: QUIET })
    const { shards, clickhouse, close } = connect(engine.url, files)
    const closeAll = async () => {
      await close()
      await engine.close()
      await remove()
    }
    return { shards, clickhouse, place: files, close: closeAll }
  } catch (error) {
    await remove()
    throw error
  }
}

async function openEmbedded(dataDir: string, ownerLimitMs: number): Promise<OpenStore> {
  const giveUpAt = performance.now() + ownerLimitMs
  for (;;) {
    try {
      const { shards, clickhouse, close } = await openOwnStore(
        { DATA_DIR: dataDir },
        { mustExist: true, isShared: false },
      )
      return { shards, clickhouse, place: resolve(dataDir), close }
    } catch (error) {
      if (!(error instanceof FolderInUseError)) throw error
      const store = error.clickhouse && (await connectToOwner(error.clickhouse, dataDir))
      if (store) return store
      if (performance.now() > giveUpAt) throw toOwnerError(error)
      await wait(PAUSE_MS)
    }
  }
}

/** Opens the store through the engine of the process that owns the folder; undefined if the engine does not respond. */
async function connectToOwner(url: string, dataDir: string): Promise<OpenStore | undefined> {
  const store = connect(url, resolve(dataDir))
  try {
    await store.clickhouse.ping()
    return store
  } catch {
    await store.close()
    return undefined
  }
}

function connect(url: string, place: string, cluster?: string): OpenStore {
  const shards = openShards(url, { cluster })
  return { shards, clickhouse: shards.first, place, close: () => shards.close() }
}

/** @throws Error if no service has ever used the database */
async function requireTables({ clickhouse, place }: Pick<OpenStore, 'clickhouse' | 'place'>): Promise<void> {
  const [found] = await clickhouse.rows<{ databases: string; tables: string }>(
    `SELECT count() AS databases, (SELECT count() FROM system.tables WHERE database = {name:String} AND name = 'schema_migrations') AS tables
     FROM system.databases WHERE name = {name:String}`,
    { name: clickhouse.database },
    WITHOUT_DATABASE,
  )
  if (Number(found?.tables) > 0) return
  const fault = Number(found?.databases) > 0 ? 'has no tables of Tallyhouse' : 'does not exist'
  throw new Error(`The store was not found: ${place} ${fault}. Set ${SETTINGS}, or start the service first.`)
}

/** The servers of CLICKHOUSE_URL and their database, without passwords. */
function describePlace(url: string): string {
  const urls = shardUrls({ CLICKHOUSE_URL: url })
    .flat()
    .map((one) => new URL(one))
  const database = decodeURIComponent(urls[0]?.pathname.slice(1) ?? '') || 'default'
  return `database ${database} of ${urls.map(({ origin }) => origin).join(', ')}`
}

function toOwnerError({ message, clickhouse }: FolderInUseError): Error {
  const reason = clickhouse ? 'Its ClickHouse does not respond.' : 'If it uses a ClickHouse server, set CLICKHOUSE_URL.'
  return new Error(`${message} ${reason}`)
}
