import { cpSync } from 'node:fs'
import { ClickHouse } from '../src/clickhouse/client.js'
import { startEmbeddedClickHouse } from '../src/clickhouse/embedded/engine.js'
import { migrate } from '../src/clickhouse/migrate.js'

/** Where `test/run.mjs` has put the data of a migrated engine, for the files that it runs. */
const EMPTY_STORE = process.env.EMPTY_STORE
const QUIET = { info() {}, warn() {}, error() {} }

/**
 * Makes the data of a migrated engine without rows. Copying them takes a tenth of the CPU time of a migration, with
 * which hundreds of tests would begin. @public used by `test/run.mjs` once it is compiled
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
 * Copies the empty tables into the folder of a new engine. Without the runner, the engine migrates, as in a new
 * installation.
 */
export async function copyEmptyStore(path: string): Promise<void> {
  // The asynchronous copy takes five times as long for these two hundred small files.
  if (EMPTY_STORE !== undefined) cpSync(EMPTY_STORE, path, { recursive: true, verbatimSymlinks: true })
}
