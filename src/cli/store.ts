import type { Shards } from '../clickhouse/shards.js'
import { loadConfig } from '../config.js'
import { openStore } from '../store/open.js'
import type { CommandIo } from './command.js'

/**
 * Runs a command on the store in the service's settings, and prints the store's address to stderr. Only the first
 * shard has to be up; a command that needs another one fails when it uses it.
 * @throws Error with advice if there is no store
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
