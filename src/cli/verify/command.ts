import { loadConfig } from '../../config.js'
import { type Command, parseOptions, UsageError } from '../command.js'
import { rebuildJournals } from './rebuild.js'
import { verifyStore } from './store.js'

const USAGE = `Usage: tallyhouse verify [options]

Checks whether the store and the journals still have everything, and says what is wrong and what to
do. The service may be running or not.

  parts      parts that ClickHouse has set aside as broken or no longer finds, and their contents
  counts     the events of each project and month, as recorded and as stored
  checksums  the files of each part, by ClickHouse's CHECK TABLE, with one thread
  ledger     for each project, whether every event that was received is stored, repeated, refused,
             deleted or waiting
  journals   whether each responds and can be read, and how much waits in it

  --quick            skips the checksums, which read all data once
  --accept           stops reporting current losses, once you have restored the data or given it up.
                     From then on, the current state counts as complete
  --rebuild-journal  if data.mdb of an embedded journal is damaged or gone: recreates it from the
                     log next to it, and stores the entries that are missing from the store. The
                     service must be stopped. The Idempotency-Keys of a day and the insert_ids of
                     seven days are lost with data.mdb, so a request that a client repeats may be
                     stored again

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
    if (isRebuilding && (isQuick || isAccepting)) throw new UsageError('Use --rebuild-journal without other options.')
    const config = loadConfig(io.env)
    if (isRebuilding) return await rebuildJournals(config, io)
    return await verifyStore(config, { isQuick, isAccepting }, io)
  },
}
