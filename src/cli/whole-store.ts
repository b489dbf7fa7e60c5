import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { ClickHouse } from '../clickhouse/client.js'
import { lockDataFolder } from '../clickhouse/embedded/data-dir.js'
import { startEmbeddedClickHouse } from '../clickhouse/embedded/engine.js'
import { migrate } from '../clickhouse/migrate.js'
import type { Config } from '../config.js'
import type { Journal } from '../journal/journal.js'
import { openJournal } from '../pipeline/open-journal.js'
import { hasTables } from '../store/dump.js'

/** A store and the journal in front of it, as the service has them, for a command that needs both to itself. */
export interface WholeStore {
  clickhouse: ClickHouse
  journal: Journal
  /** for messages; without a password */
  place: string
  close(): Promise<void>
}

/**
 * Opens what the service's settings name, in the place of a service that is stopped. A data folder is locked meanwhile; that no
 * service uses the servers is for the caller to find out.
 * @param mustExist else what is missing is made
 * @throws FolderInUseError, SchemaError, StoreUnreachableError, or an Error with a sentence for the user
 */
export async function openWholeStore(config: Config, { mustExist }: { mustExist: boolean }): Promise<WholeStore> {
  const { CLICKHOUSE_URL, REDIS_URL, DATA_DIR } = config
  const closers: (() => Promise<unknown>)[] = []
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  try {
    const isLocal = CLICKHOUSE_URL === undefined || REDIS_URL === undefined
    if (isLocal && mustExist) await requireFolder(DATA_DIR)
    if (isLocal) closers.push((await lockDataFolder(DATA_DIR)).release)
    let url = CLICKHOUSE_URL
    if (url === undefined) {
      const path = join(DATA_DIR, 'clickhouse')
      if (mustExist) await requireFolder(path)
      const engine = await startEmbeddedClickHouse({ path, log: pino({ level: 'silent' }) })
      closers.push(engine.close)
      url = engine.url
    }
    const clickhouse = new ClickHouse({ url })
    closers.push(() => clickhouse.close())
    const place = CLICKHOUSE_URL === undefined ? DATA_DIR : `${new URL(url).host}/${clickhouse.database}`
    if (mustExist && !(await hasTables(clickhouse))) {
      throw new Error(
        `There is no store of Tallyhouse at ${place}. Set CLICKHOUSE_URL or DATA_DIR as the service has it.`,
      )
    }
    await migrate(clickhouse)
    const journal = await openJournal(config, pino({ level: 'silent' }), clickhouse)
    closers.push(() => journal.close())
    return { clickhouse, journal, place, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function requireFolder(path: string): Promise<void> {
  const isThere = await stat(path).then(
    (info) => info.isDirectory(),
    () => false,
  )
  if (!isThere) throw new Error(`There is no folder ${path}. Set DATA_DIR, or CLICKHOUSE_URL, as the service has it.`)
}
