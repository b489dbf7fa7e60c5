import type { Shards } from '../clickhouse/shards.js'
import { loadConfig } from '../config.js'
import { openStore } from '../store/open.js'
import type { CommandIo } from './command.js'

/**
 * Runs a command on the store that the service's settings name, and names that store on stderr. Of several shards, only the
 * first has to be up: a command that needs another one fails there.
 * @throws Error that says what to do, if there is no store
 */
export async function withStore<T>(io: CommandIo, use: (shards: Shards) => Promise<T>): Promise<T> {
  const { shards, place, close } = await openStore(loadConfig(io.env), { areAllNeeded: false })
  try {
    io.stderr.write(`Store: ${place}\n`)
    return await use(shards)
  } finally {
    await close()
  }
}
