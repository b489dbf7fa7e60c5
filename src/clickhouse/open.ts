import { stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouseSettings } from '@clickhouse/client'
import type { Config } from '../config.js'
import { ClickHouse } from './client.js'
import { FolderInUseError, type FolderLock, lockDataFolder } from './embedded/data-dir.js'
import { startEmbeddedClickHouse } from './embedded/engine.js'
import { migrate } from './migrate.js'

/** How long the owner of the data folder may take to start its engine, or to end. */
const OWNER_LIMIT_MS = 10_000
const PAUSE_MS = 50

/** A query that names a database that is not there fails. */
const WITHOUT_DATABASE = { database: 'default' } as ClickHouseSettings
const QUIET = { info() {}, warn() {}, error() {} }

export interface OpenStore {
  clickhouse: ClickHouse
  /** what was opened, as a command says it: the folder, or the server and the database, without the password */
  place: string
  /** Ends what was started for it; the engine of a running service stays. */
  close(): Promise<void>
}

/**
 * The store for a command, beside a service or without one, its schema up to date. It has to be there: only the service
 * makes one, so that a command in the wrong folder does not work on an empty one. It is the server of CLICKHOUSE_URL; else the
 * embedded engine of the service that owns DATA_DIR; and where none does, an engine of its own, which owns the folder until `close`.
 *
 * Not promised: a service that ends takes its engine along, whoever uses it; and while a command owns the folder, no service starts.
 *
 * @throws Error that says what to do, where there is no store, or the folder has an owner whose engine does not answer within
 *   `ownerLimitMs`
 * @throws SchemaError, StoreError, StoreUnreachableError where the store cannot be used
 */
export async function openStore(
  config: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'>,
  { ownerLimitMs = OWNER_LIMIT_MS } = {},
): Promise<OpenStore> {
  const store =
    config.CLICKHOUSE_URL === undefined
      ? await openEmbedded(config.DATA_DIR, ownerLimitMs)
      : connect(config.CLICKHOUSE_URL, placeOf(config.CLICKHOUSE_URL), async () => undefined)
  try {
    if (config.CLICKHOUSE_URL !== undefined) await requireTables(store)
    await migrate(store.clickhouse)
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

async function openEmbedded(dataDir: string, ownerLimitMs: number): Promise<OpenStore> {
  const giveUpAt = performance.now() + ownerLimitMs
  if (!(await isThere(dataDir))) throw noStoreIn(dataDir)
  for (;;) {
    try {
      return await startOwn(dataDir, await lockDataFolder(dataDir))
    } catch (error) {
      if (!(error instanceof FolderInUseError)) throw error
      const store = error.clickhouse && (await answering(error.clickhouse, dataDir))
      if (store) return store
      if (performance.now() > giveUpAt) throw ownerWithoutEngine(error)
      await wait(PAUSE_MS)
    }
  }
}

async function startOwn(dataDir: string, folder: FolderLock): Promise<OpenStore> {
  const path = join(dataDir, 'clickhouse')
  try {
    if (!(await isThere(path))) throw noStoreIn(dataDir)
    const engine = await startEmbeddedClickHouse({ path, log: QUIET })
    return connect(engine.url, resolve(dataDir), async () => {
      await engine.close()
      await folder.release()
    })
  } catch (error) {
    await folder.release()
    throw error
  }
}

async function answering(url: string, dataDir: string): Promise<OpenStore | undefined> {
  const store = connect(url, resolve(dataDir), async () => undefined)
  try {
    await store.clickhouse.ping()
    return store
  } catch {
    await store.close()
    return undefined
  }
}

function connect(url: string, place: string, close: () => Promise<void>): OpenStore {
  const clickhouse = new ClickHouse({ url })
  return {
    clickhouse,
    place,
    close: async () => {
      await clickhouse.close()
      await close()
    },
  }
}

/** @throws Error where no service has ever used the database */
async function requireTables({ clickhouse, place }: OpenStore): Promise<void> {
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

const SETTINGS = 'CLICKHOUSE_URL or DATA_DIR as for the service'

function noStoreIn(dataDir: string): Error {
  return new Error(
    `There is no store in ${resolve(dataDir)}. Run the command where the service runs, set ${SETTINGS}, or start the service first.`,
  )
}

async function isThere(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}

/** The server and the database of a URL, without its password. */
function placeOf(url: string): string {
  const { origin, pathname } = new URL(url)
  return `database ${decodeURIComponent(pathname.slice(1)) || 'default'} of ${origin}`
}

function ownerWithoutEngine({ message, clickhouse }: FolderInUseError): Error {
  const reason = clickhouse ? 'Its ClickHouse does not answer.' : 'If it uses a ClickHouse server, set CLICKHOUSE_URL.'
  return new Error(`${message} ${reason}`)
}
