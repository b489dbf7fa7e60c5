import { pino } from 'pino'
import type { Shard, Shards } from '../clickhouse/shards.js'
import type { Config } from '../config.js'
import type { Journal } from '../journal/journal.js'
import type { Relocation } from '../journal/relocation.js'
import { checkLayout, findLayout } from '../lanes/layout.js'
import { openJournal, openRelocation, readGuard } from '../lanes/open-journal.js'
import { CloseStack } from '../lib/close-stack.js'
import { layoutNumber } from '../model/layout.js'
import { openStoreAlone } from '../store/open.js'

/** A lane's journal and shard, without a running service. */
export interface BareLane {
  /** from 0 */
  number: number
  /** the shard that its writer stores on */
  shard: Shard
  journal: Journal
}

/** A store and the journals in front of it, for a command that needs all of them exclusively. */
export interface WholeStore {
  shards: Shards
  /** all lanes, ordered by number */
  lanes: readonly BareLane[]
  /** for messages; without a password */
  place: string
  /** opens a lane's journal except for its entries; the caller must close the result before `close` */
  openRelocation(lane: number): Promise<Relocation>
  close(): Promise<void>
}

/**
 * Opens the store and the journals in the service's settings. The service must be stopped. A data folder is locked
 * until `close`. With servers, the caller must check that no service uses them.
 * @param mustExist if false, missing tables are created, with the layout of the settings
 * @throws FolderInUseError, SchemaError, WrongLayoutError, StoreUnreachableError, or an Error with a sentence for the
 * user
 */
export async function openWholeStore(config: Config, { mustExist }: { mustExist: boolean }): Promise<WholeStore> {
  const { LANES } = config
  const parts = new CloseStack()
  const log = pino({ level: 'silent' })
  try {
    const { shards, place } = parts.add(await openStoreAlone(config, { mustExist }))
    const layout = await findLayout(shards, LANES, () => readGuard(config, log))
    await checkLayout(shards, layout)
    const lanes: BareLane[] = []
    for (let number = 0; number < LANES; number++) {
      const journal = parts.add(await openJournal(config, log, shards, { lane: number, layout: layoutNumber(layout) }))
      lanes.push({ number, shard: shards.at(number % shards.all.length), journal })
    }
    const store = { shards, lanes, place, close: () => parts.close() }
    return { ...store, openRelocation: (lane) => openRelocation(config, lane, log) }
  } catch (error) {
    await parts.close()
    throw error
  }
}

/** Returns the last position that each lane has assigned. */
export async function lastPositions(lanes: readonly BareLane[]): Promise<string[]> {
  return await Promise.all(lanes.map(async ({ journal }) => String((await journal.progress()).appended)))
}

/** Counts the requests waiting in the journals. */
export async function waitingIn(lanes: readonly BareLane[]): Promise<number> {
  const depths = await Promise.all(lanes.map(({ journal }) => journal.depth()))
  return depths.reduce((sum, { entries }) => sum + entries, 0)
}
