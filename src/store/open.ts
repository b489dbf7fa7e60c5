import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Config } from '../config.js'
import { FolderInUseError, type FolderLock, lockDataFolder } from '../data-folder.js'
import { startEmbeddedClickHouse } from '../embedded/clickhouse.js'
import { ClickHouse } from './clickhouse.js'
import { migrate } from './migrate.js'

/** How long the owner of the data folder may take to start its engine, or to end. */
const OWNER_LIMIT_MS = 10_000
const PAUSE_MS = 50

const QUIET = { info() {}, warn() {}, error() {} }

export interface OpenStore {
  clickhouse: ClickHouse
  /** Ends what was started for it; the engine of a running service stays. */
  close(): Promise<void>
}

/**
 * The store for a command, beside a service or without one, its schema up to date. It is the server of CLICKHOUSE_URL; else the
 * embedded engine of the service that owns DATA_DIR; and where none does, an engine of its own, which owns the folder until `close`.
 *
 * Not promised: a service that ends takes its engine along, whoever uses it; and while a command owns the folder, no service starts.
 *
 * @throws Error that says what to do, where the folder has an owner whose engine does not answer within `ownerLimitMs`
 * @throws SchemaError, StoreError, StoreUnreachableError where the store cannot be used
 */
export async function openStore(
  config: Pick<Config, 'CLICKHOUSE_URL' | 'DATA_DIR'>,
  { ownerLimitMs = OWNER_LIMIT_MS } = {},
): Promise<OpenStore> {
  const store =
    config.CLICKHOUSE_URL === undefined
      ? await openEmbedded(config.DATA_DIR, ownerLimitMs)
      : connect(config.CLICKHOUSE_URL, async () => undefined)
  try {
    await migrate(store.clickhouse)
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

async function openEmbedded(dataDir: string, ownerLimitMs: number): Promise<OpenStore> {
  const giveUpAt = performance.now() + ownerLimitMs
  for (;;) {
    try {
      return await startOwn(dataDir, await lockDataFolder(dataDir))
    } catch (error) {
      if (!(error instanceof FolderInUseError)) throw error
      const store = error.clickhouse && (await answering(error.clickhouse))
      if (store) return store
      if (performance.now() > giveUpAt) throw ownerWithoutEngine(error)
      await wait(PAUSE_MS)
    }
  }
}

async function startOwn(dataDir: string, folder: FolderLock): Promise<OpenStore> {
  try {
    const engine = await startEmbeddedClickHouse({ path: join(dataDir, 'clickhouse'), log: QUIET })
    return connect(engine.url, async () => {
      await engine.close()
      await folder.release()
    })
  } catch (error) {
    await folder.release()
    throw error
  }
}

async function answering(url: string): Promise<OpenStore | undefined> {
  const store = connect(url, async () => undefined)
  try {
    await store.clickhouse.ping()
    return store
  } catch {
    await store.close()
    return undefined
  }
}

function connect(url: string, close: () => Promise<void>): OpenStore {
  const clickhouse = new ClickHouse({ url })
  return {
    clickhouse,
    close: async () => {
      await clickhouse.close()
      await close()
    },
  }
}

function ownerWithoutEngine({ message, clickhouse }: FolderInUseError): Error {
  const reason = clickhouse ? 'Its ClickHouse does not answer.' : 'If it uses a ClickHouse server, set CLICKHOUSE_URL.'
  return new Error(`${message} ${reason}`)
}
