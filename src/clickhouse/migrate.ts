import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { OtherVersionError } from '../contract/errors.js'
import type { ClickHouse } from './client.js'
import { WITHOUT_DATABASE } from './connection.js'
import { isLocal, replicateStatement, withoutComments } from './replicate-statement.js'

const SCHEMA_FOLDER = fileURLToPath(new URL('../../schema/', import.meta.url))

/** The number of the migration that creates the tables of a new store. */
const BASELINE = 0
/** Matches the names of files that change the store of an earlier release. */
const NUMBERED = /^\d{3}_/

/** The schema cannot be migrated to this version; retrying does not help. */
class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

export interface Migration {
  /** 0 for the baseline, which creates the tables of a new store */
  number: number
  name: string
  statements: string[]
  /** checksum of the statements without comments */
  checksum: string
}

/** Adapts a statement of a file to a server. */
type Spelling = (statement: string) => string

/**
 * Creates the tables of a new store, and applies the numbered files of `schema/` that a store does not have yet, in
 * order. All statements can be repeated, so services may start at the same time, and the next start completes a killed
 * one. One replica gets its tables from the files, and the others copy them from that one.
 * @throws OtherVersionError if the store was created from another baseline, or has a newer schema
 * @throws SchemaError if the store has a schema from files that were changed since, or cannot be replicated
 */
export async function migrate(clickhouse: ClickHouse, folder = SCHEMA_FOLDER): Promise<void> {
  const migrations = await readMigrations(folder)
  await clickhouse.prepare('migrations', async (server, model) => {
    const isReplicated = await checkReplication(server, clickhouse.hasReplicas)
    const spell: Spelling = isReplicated ? (text) => replicateStatement(text, server.database) : (text) => text
    if (model) await copyTables(server, model, migrations)
    else await applyAll(server, migrations, spell)
  })
}

/** Applies the migrations that a server does not have yet. */
async function applyAll(clickhouse: ClickHouse, migrations: Migration[], spell: Spelling): Promise<void> {
  for (const { number, name, statements, checksum } of await findMissing(clickhouse, migrations)) {
    for (const statement of statements) await clickhouse.command(spell(statement))
    await note(clickhouse, { number, name, checksum })
  }
}

/**
 * Makes a server the replica of another that is up to date. Its tables must be created from the other's current
 * definitions: the Keeper knows their columns, and would refuse a table of the baseline. The Keeper also replicates
 * numbered changes of contents and columns, but not of settings.
 */
export async function copyTables(clickhouse: ClickHouse, model: ClickHouse, migrations: Migration[]): Promise<void> {
  const left = await findMissing(clickhouse, migrations)
  if (left.length === 0) return
  const tables = await model.rows<{ sql: string }>(
    `SELECT create_table_query AS sql FROM system.tables
     WHERE database = currentDatabase() AND (engine LIKE '%MergeTree' OR engine IN ('Set', 'Memory', 'MaterializedView'))
       AND name != 'schema_migrations' AND NOT startsWith(name, '.inner')
     ORDER BY engine = 'MaterializedView', name`,
  )
  for (const { sql } of tables) {
    await clickhouse.command(sql.replace(/^CREATE (TABLE|MATERIALIZED VIEW) /, 'CREATE $1 IF NOT EXISTS '))
  }
  for (const { number, name, statements, checksum } of left) {
    for (const statement of statements.filter(isLocal)) await clickhouse.command(statement)
    await note(clickhouse, { number, name, checksum })
  }
}

/** The migrations that a server does not have. Each server records its own, even if it is one of several replicas. */
async function findMissing(clickhouse: ClickHouse, migrations: Migration[]): Promise<Migration[]> {
  await checkVersion(clickhouse)
  await clickhouse.commandWithoutDatabase(`CREATE DATABASE IF NOT EXISTS ${quoteName(clickhouse.database)}`)
  await clickhouse.command(
    'CREATE TABLE IF NOT EXISTS schema_migrations (number UInt32, name String, checksum String, applied_at DateTime) ' +
      'ENGINE = ReplacingMergeTree ORDER BY number',
  )
  const applied = await clickhouse.rows<{ number: number; name: string; checksum: string }>(
    'SELECT number, name, checksum FROM schema_migrations FINAL ORDER BY number',
  )
  const missing = new Map(migrations.map((migration) => [migration.number, migration]))
  const baseline = applied.find(({ number }) => number === BASELINE)
  if (applied.length > 0 && baseline?.checksum !== missing.get(BASELINE)?.checksum) {
    throw new OtherVersionError('The database')
  }
  for (const { number, name, checksum } of applied) {
    const migration = missing.get(number)
    if (!migration) throw new OtherVersionError(`The database (migration ${name})`, true)
    if (migration.checksum !== checksum) {
      throw new SchemaError(
        `Migration ${migration.name} was changed after it was applied. Undo the change and add a new file instead.`,
      )
    }
    missing.delete(number)
  }
  return [...missing.values()]
}

async function note(clickhouse: ClickHouse, { number, name, checksum }: Omit<Migration, 'statements'>): Promise<void> {
  await clickhouse.command(
    'INSERT INTO schema_migrations SELECT {number:UInt32}, {name:String}, {checksum:String}, now()',
    { number, name, checksum },
  )
}

/**
 * Whether the tables of a server are or must be replicated. A store whose replicas were reduced to one keeps its
 * tables.
 * @throws SchemaError if they are not replicated although there are several servers, or if a server lacks the replica
 *   macros
 */
async function checkReplication(clickhouse: ClickHouse, hasReplicas: boolean): Promise<boolean> {
  const [events] = await clickhouse.rows<{ engine: string }>(
    "SELECT engine FROM system.tables WHERE database = {database:String} AND name = 'events'",
    { database: clickhouse.database },
    WITHOUT_DATABASE,
  )
  if (!hasReplicas) return events?.engine.startsWith('Replicated') ?? false
  if (events && !events.engine.startsWith('Replicated')) {
    throw new SchemaError(
      'CLICKHOUSE_URL has replicas, but the tables are not replicated. Move the store with tallyhouse export --all and ' +
        'import --all, as docs/scale.md says.',
    )
  }
  const macros = await clickhouse.rows<{ macro: string }>(
    "SELECT macro FROM system.macros WHERE macro IN ('shard', 'replica')",
    {},
    WITHOUT_DATABASE,
  )
  if (macros.length < 2) {
    throw new SchemaError(
      'ClickHouse does not know which replica it is: its configuration needs the macros shard and replica, and a Keeper.',
    )
  }
  return true
}

/** Checks for a setting that deduplication of retried blocks needs. */
async function checkVersion(clickhouse: ClickHouse): Promise<void> {
  const [server] = await clickhouse.rows<{ version: string; known: string }>(
    "SELECT version() AS version, count() AS known FROM system.settings WHERE name = 'deduplicate_insert_select'",
    {},
    WITHOUT_DATABASE,
  )
  if (server && Number(server.known) === 0) {
    throw new SchemaError(`ClickHouse ${server.version} is too old: 26.2 or later is needed.`)
  }
}

/** The migrations of a folder in order: the baseline, made of all files without a number, and the numbered files. */
export async function readMigrations(folder = SCHEMA_FOLDER): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\w+\.sql$/.test(name)).sort()
  const files = await Promise.all(
    names.map(async (name) => ({ name, statements: statementsIn(await readFile(`${folder}/${name}`, 'utf8')) })),
  )
  const numbered = files.filter(({ name }) => NUMBERED.test(name))
  // Create views after all tables, because they may read tables of other files.
  const baseline = files
    .filter(({ name }) => !NUMBERED.test(name))
    .flatMap(({ statements }) => statements)
    .sort((a, b) => Number(isView(a)) - Number(isView(b)))
  return [
    toMigration(BASELINE, 'baseline', baseline),
    ...numbered.map(({ name, statements }) => toMigration(Number(name.slice(0, 3)), name, statements)),
  ]
}

function toMigration(number: number, name: string, statements: string[]): Migration {
  const checksum = createHash('sha256').update(statements.map(withoutComments).join(';')).digest('hex')
  return { number, name, statements, checksum }
}

/** The statements of a file, each ending with a semicolon at the end of a line. */
function statementsIn(text: string): string[] {
  return text.split(/;\s*$/m).filter((statement) => withoutComments(statement).trim() !== '')
}

function isView(statement: string): boolean {
  return /^\s*CREATE MATERIALIZED VIEW\b/.test(withoutComments(statement))
}

function quoteName(name: string): string {
  return `\`${name.replace(/[\\`]/g, '\\$&')}\``
}
