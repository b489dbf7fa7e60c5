import { pino } from 'pino'
import type { ClickHouse } from '../clickhouse/client.js'
import { migrate } from '../clickhouse/migrate.js'
import { placeOf, requireTables } from '../clickhouse/open.js'
import { openOwnStore } from '../clickhouse/own-store.js'
import type { Config } from '../config.js'
import type { Journal } from '../journal/journal.js'
import { CloseStack } from '../lib/close-stack.js'
import { openJournal } from '../pipeline/open-journal.js'

/** A store and the journal in front of it, for a command that needs both exclusively. */
export interface WholeStore {
  clickhouse: ClickHouse
  journal: Journal
  /** for messages; without a password */
  place: string
  close(): Promise<void>
}

/**
 * Opens the store and the journal that the service's settings name, in place of the service, which must be stopped. A data
 * folder is locked until `close`. With servers, the caller must check that no service uses them.
 * @param mustExist if false, what is missing is created
 * @throws FolderInUseError, SchemaError, StoreUnreachableError, or an Error with a sentence for the user
 */
export async function openWholeStore(config: Config, { mustExist }: { mustExist: boolean }): Promise<WholeStore> {
  const { CLICKHOUSE_URL, DATA_DIR } = config
  const parts = new CloseStack()
  const log = pino({ level: 'silent' })
  try {
    const { clickhouse } = parts.add(await openOwnStore(config, { mustExist, isShared: false }))
    const place = CLICKHOUSE_URL === undefined ? DATA_DIR : placeOf(CLICKHOUSE_URL)
    if (mustExist) await requireTables({ clickhouse, place })
    await migrate(clickhouse)
    const journal = parts.add(await openJournal(config, log, clickhouse))
    return { clickhouse, journal, place, close: () => parts.close() }
  } catch (error) {
    await parts.close()
    throw error
  }
}
