import type { Shards } from '../clickhouse/shards.js'
import { loadConfig } from '../config.js'
import { using } from '../lib/using.js'
import { openStore } from '../store/open.js'
import type { CommandIo } from './command.js'

/**
 * Runs a command on the store in the service's settings, and prints the store's address to stderr. Only the first
 * shard has to be up; a command that needs another one fails when it uses it.
 * @throws Error with advice if there is no store
 */
export async function withStore<T>(io: CommandIo, use: (shards: Shards) => Promise<T>): Promise<T> {
  return await using(openStore(loadConfig(io.env), { areAllNeeded: false }), async ({ shards, place }) => {
    io.stderr.write(`Store: ${place}\n`)
    return await use(shards)
  })
}
