import { cpSync } from 'node:fs'
import { ClickHouse } from '../src/clickhouse/client.js'
import { startEmbeddedClickHouse } from '../src/clickhouse/embedded/engine.js'
import { migrate } from '../src/clickhouse/migrate.js'

/** Where `test/run.mjs` has put the data of an engine whose tables are there, for the files that it runs. */
const EMPTY_STORE = process.env.EMPTY_STORE
const QUIET = { info() {}, warn() {}, error() {} }

/**
 * Makes the data of an engine that has been migrated and has no rows: to copy them costs a tenth of the CPU time of a
 * migration, which hundreds of tests would begin with.
 * @public `test/run.mjs` has it once it is compiled
 */
export async function makeEmptyStore(path: string): Promise<void> {
  const engine = await startEmbeddedClickHouse({ path, log: QUIET })
  const clickhouse = new ClickHouse({ url: engine.url })
  try {
    await migrate(clickhouse)
  } finally {
    await clickhouse.close()
    await engine.close()
  }
}

/**
 * Lets an engine that is to run in a new folder begin with the tables. Without the runner it migrates, as in a new
 * installation.
 */
export async function copyEmptyStore(path: string): Promise<void> {
  // The asynchronous copy takes five times as long for these two hundred small files.
  if (EMPTY_STORE !== undefined) cpSync(EMPTY_STORE, path, { recursive: true, verbatimSymlinks: true })
}
