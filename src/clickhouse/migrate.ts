import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { ClickHouseSettings } from '@clickhouse/client'
import type { ClickHouse } from './client.js'

const SCHEMA_FOLDER = fileURLToPath(new URL('../../schema/', import.meta.url))

/** The schema cannot be migrated to this version; retrying does not help. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

interface Migration {
  number: number
  name: string
  statements: string[]
  checksum: string
}

/**
 * Applies the numbered files of `schema/` that the store does not have yet, in order. Each file is idempotent, so
 * services may start at the same time.
 * @throws SchemaError if the store has a newer schema, or one from files that were changed since
 */
export async function migrate(clickhouse: ClickHouse, folder = SCHEMA_FOLDER): Promise<void> {
  const migrations = await readMigrations(folder)
  await checkVersion(clickhouse)
  await clickhouse.commandWithoutDatabase(`CREATE DATABASE IF NOT EXISTS ${quoteName(clickhouse.database)}`)
  await clickhouse.command(
    'CREATE TABLE IF NOT EXISTS schema_migrations (number UInt32, name String, checksum String, applied_at DateTime) ' +
      'ENGINE = ReplacingMergeTree ORDER BY number',
  )
  const applied = await clickhouse.rows<{ number: number; name: string; checksum: string }>(
    'SELECT number, name, checksum FROM schema_migrations FINAL ORDER BY number',
  )
  const known = new Map(migrations.map((migration) => [migration.number, migration]))
  for (const { number, name, checksum } of applied) {
    const migration = known.get(number)
    if (!migration) {
      throw new SchemaError(
        `The database has migration ${name}, which this version does not know. Start a newer version.`,
      )
    }
    if (migration.checksum !== checksum) {
      throw new SchemaError(
        `Migration ${migration.name} was changed after it was applied. Undo the change and add a new file instead.`,
      )
    }
    known.delete(number)
  }
  for (const { number, name, statements, checksum } of known.values()) {
    for (const statement of statements) await clickhouse.command(statement)
    await clickhouse.command(
      'INSERT INTO schema_migrations SELECT {number:UInt32}, {name:String}, {checksum:String}, now()',
      { number, name, checksum },
    )
  }
}

/** Deduplication of retried blocks needs this setting. */
async function checkVersion(clickhouse: ClickHouse): Promise<void> {
  const [server] = await clickhouse.rows<{ version: string; known: string }>(
    "SELECT version() AS version, count() AS known FROM system.settings WHERE name = 'deduplicate_insert_select'",
    {},
    { database: 'default' } as ClickHouseSettings,
  )
  if (server && Number(server.known) === 0) {
    throw new SchemaError(`ClickHouse ${server.version} is too old: 26.2 or later is needed.`)
  }
}

async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\d{3}_\w+\.sql$/.test(name)).sort()
  return await Promise.all(
    names.map(async (name) => {
      const text = await readFile(`${folder}/${name}`, 'utf8')
      return {
        number: Number(name.slice(0, 3)),
        name,
        // A statement ends with a semicolon at the end of a line.
        statements: text.split(/;\s*$/m).filter((statement) => statement.replace(/^\s*--.*$/gm, '').trim() !== ''),
        checksum: createHash('sha256').update(text).digest('hex'),
      }
    }),
  )
}

function quoteName(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``
}
