import { resolve } from 'node:path'
import { FolderInUseError } from '../../clickhouse/embedded/data-dir.js'
import { openOwnStore } from '../../clickhouse/own-store.js'
import { type Config, journalUrls } from '../../config.js'
import { laneName, openJournal, openRelocation } from '../../lanes/open-journal.js'
import { relayout } from '../../lanes/relayout.js'
import { CloseStack } from '../../lib/close-stack.js'
import { openTerminalLog } from '../../lib/log.js'
import { describePlace, type OpenStore, openStore, requireTables } from '../../store/open.js'
import { prepareShards } from '../../store/prepare-shards.js'
import type { CommandIo } from '../command.js'

/** @param given the settings, with the new number of lanes */
export async function setLanes(given: Config, io: CommandIo): Promise<number> {
  // To reduce the lanes, REDIS_URL must name all current ones; a single URL may be that of a cluster.
  const config = { ...given, LANES: Math.max(2, given.LANES, journalUrls(given).length) }
  const { stderr, signal } = io
  const store = await openLaneStore(config).catch((error: unknown) => {
    if (!(error instanceof FolderInUseError)) throw error
    throw new Error(`Stop the service first: the embedded journal serves a single process. ${error.message}`)
  })
  try {
    stderr.write(`Store: ${store.place}\n`)
    const log = await openTerminalLog('warn', stderr)
    await relayout(given.LANES, {
      shards: store.shards,
      relocate: (lane) => openRelocation(config, lane, log),
      openJournal: (lane, layout) => openJournal(config, log, store.shards, { lane, layout }),
      nameLane: (lane) => laneName(config, lane),
      report: (step) => stderr.write(`${step}\n`),
      log,
      signal,
    })
    return 0
  } catch (error) {
    if (!signal.aborted) throw error
    stderr.write('The change was interrupted. Run the command again to resume it.\n')
    return 1
  } finally {
    await store.close()
  }
}

/**
 * Opens the store for a change of its lanes. With the embedded journal, the service must be stopped; with Redis, it
 * may be running.
 * @throws FolderInUseError, and the errors of `openStore`
 */
async function openLaneStore(config: Config): Promise<OpenStore> {
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
