import { FolderInUseError } from '../../clickhouse/embedded/data-dir.js'
import { type Config, journalUrls } from '../../config.js'
import { laneName, openJournal, openRelocation } from '../../lanes/open-journal.js'
import { relayout } from '../../lanes/relayout.js'
import { openTerminalLog } from '../../lib/log.js'
import { openStore, openStoreAlone } from '../../store/open.js'
import type { CommandIo } from '../command.js'

/** @param given the settings, with the new number of lanes */
export async function setLanes(given: Config, io: CommandIo): Promise<number> {
  // To reduce the lanes, REDIS_URL must name all current ones; a single URL may be that of a cluster.
  const config = { ...given, LANES: Math.max(2, given.LANES, journalUrls(given).length) }
  const { stderr, signal } = io
  // With the embedded journal, the service must be stopped; with Redis, it may be running.
  const opening = config.REDIS_URL === undefined ? openStoreAlone(config, { mustExist: true }) : openStore(config)
  const store = await opening.catch((error: unknown) => {
    if (!(error instanceof FolderInUseError)) throw error
    throw new Error(`Stop the service first: the embedded journal serves a single process. ${error.message}`)
  })
  try {
    stderr.write(`Store: ${store.place}\n`)
    const log = await openTerminalLog('warn', stderr)
    await relayout(given.LANES, {
      shards: store.shards,
      openRelocation: (lane) => openRelocation(config, lane, log),
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
