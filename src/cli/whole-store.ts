import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import type { ClickHouse } from '../clickhouse/client.js'
import { migrate } from '../clickhouse/migrate.js'
import { openOwnStore } from '../clickhouse/own-store.js'
import { type Config, usesDataDir } from '../config.js'
import type { Journal } from '../journal/journal.js'
import { CloseStack } from '../lib/close-stack.js'
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
  const { CLICKHOUSE_URL, DATA_DIR } = config
  const parts = new CloseStack()
  const log = pino({ level: 'silent' })
  try {
    if (usesDataDir(config) && mustExist) await requireFolder(DATA_DIR)
    if (CLICKHOUSE_URL === undefined && mustExist) await requireFolder(join(DATA_DIR, 'clickhouse'))
    const { clickhouse, url } = parts.add(await openOwnStore(config, { log }))
    const place = CLICKHOUSE_URL === undefined ? DATA_DIR : `${new URL(url).host}/${clickhouse.database}`
    if (mustExist && !(await hasTables(clickhouse))) {
      throw new Error(
        `There is no store of Tallyhouse at ${place}. Set CLICKHOUSE_URL or DATA_DIR as the service has it.`,
      )
    }
    await migrate(clickhouse)
    const journal = parts.add(await openJournal(config, log, clickhouse))
    return { clickhouse, journal, place, close: () => parts.close() }
  } catch (error) {
    await parts.close()
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
