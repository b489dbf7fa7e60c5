import type { ClickHouse } from '../clickhouse/client.js'
import { openStore } from '../clickhouse/open.js'
import { loadConfig } from '../config.js'
import type { CommandIo } from './command.js'

/**
 * Runs a command on the store that the service's settings name, and names that store on stderr.
 * @throws Error that says what to do, if there is no store
 */
export async function withStore<T>(io: CommandIo, use: (clickhouse: ClickHouse) => Promise<T>): Promise<T> {
  const { clickhouse, place, close } = await openStore(loadConfig(io.env))
  try {
    io.stderr.write(`Store: ${place}\n`)
    return await use(clickhouse)
  } finally {
    await close()
  }
}
