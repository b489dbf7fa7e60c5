import { loadConfig } from '../config.js'
import { type Command, parseOptions, UsageError } from './command.js'
import { rebuildJournals } from './verify/rebuild.js'
import { verifyStore } from './verify/store.js'

const USAGE = `Usage: tallyhouse verify [options]

Checks whether the store and the journals still have everything, and says what is wrong and what to
do. The service may be running or not.

  parts      what ClickHouse has put aside as broken, or does not find any more, with what it held
  counts     the events of each project and month, as recorded and as stored
  checksums  the files of each part, by ClickHouse's CHECK TABLE, with one thread
  ledger     of each project, whether all events that were received are stored, repeated, refused,
             deleted or waiting
  journals   whether each answers and can be read, and what waits in it

  --quick            skips the checksums, which read all data once
  --accept           no longer report what is lost now, after you have restored it or given it up.
                     What is there counts as complete from then on
  --rebuild-journal  if data.mdb of an embedded journal is damaged: recreates it from the log
                     next to it, and stores what the store lacks. The service must be
                     stopped. What only data.mdb had is forgotten: the Idempotency-Keys of a day and
                     the insert_ids of seven, so a request that a client repeats may be stored again

The exit code is 0 if nothing is wrong, else 1.`

export const command: Command = {
  summary: 'checks that the store and the journals are complete and undamaged',
  usage: USAGE,
  async run(args, io) {
    const { values } = parseOptions({
      args,
      options: {
        quick: { type: 'boolean', default: false },
        accept: { type: 'boolean', default: false },
        'rebuild-journal': { type: 'boolean', default: false },
      },
    })
    const { quick: isQuick, accept: isAccepting, 'rebuild-journal': isRebuilding } = values
    if (isRebuilding && (isQuick || isAccepting)) throw new UsageError('Use --rebuild-journal alone.')
    const config = loadConfig(io.env)
    if (isRebuilding) return await rebuildJournals(config, io)
    return await verifyStore(config, { isQuick, isAccepting }, io)
  },
}
