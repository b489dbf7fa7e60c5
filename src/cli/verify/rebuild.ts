import { join } from 'node:path'
import { openOwnStore } from '../../clickhouse/own-store.js'
import type { Config } from '../../config.js'
import { lanePlace } from '../../lanes/open-journal.js'
import { using } from '../../lib/using.js'
import { layoutNumber } from '../../model/layout.js'
import { checkFactsAgain } from '../../store/fact-check.js'
import { findLastPosition, readJournals } from '../../store/journals.js'
import { readLayouts } from '../../store/layouts.js'
import type { CommandIo } from '../command.js'
import { drain } from '../drain.js'
import { openWholeStore } from '../whole-store.js'

/** @returns the exit code */
export async function rebuildJournals(config: Config, { stderr, signal }: CommandIo): Promise<number> {
  if (config.REDIS_URL !== undefined) throw new Error('The journal is in Redis, which has no data.mdb.')
  const report = (text: string) => void stderr.write(`${text}\n`)
  let rebuilt = 0
  await using(openOwnStore(config, { mustExist: true, isShared: false }), async ({ shards }) => {
    const { rebuildLmdbJournal } = await import('../../journal/lmdb/rebuild.js')
    const journals = await readJournals(shards.first)
    const { active } = await readLayouts(shards.first)
    const last = await findLastPosition(shards)
    for (let lane = 0; lane < config.LANES; lane++) {
      const folder = lanePlace(config, lane)
      const known = journals.find((journal) => journal.lane === lane)
      if (!known) throw new Error(`The store has no journal of lane ${lane}: no service has started on it.`)
      const layout = active ? layoutNumber(active) : 1
      const kept = await rebuildLmdbJournal(folder, { id: known.id, layout, last })
      if (kept === undefined) continue
      rebuilt++
      report(`${join(folder, 'data.mdb')} was recreated.${kept === null ? '' : ` The damaged one is ${kept}.`}`)
    }
  })
  if (rebuilt === 0) {
    report('Nothing to do: the databases of all journals can be read.')
    return 0
  }
  await using(openWholeStore(config, { mustExist: true }), async (whole) => {
    // What the store lacks may be older than what facts have.
    await whole.shards.each(({ clickhouse }) => checkFactsAgain(clickhouse))
    await drain(whole, report, signal)
  })
  report('Everything that the log had is stored. Start the service.')
  return 0
}
