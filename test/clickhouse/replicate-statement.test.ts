import { cp, writeFile } from 'node:fs/promises'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { copyTables, migrate, readMigrations } from '../../src/clickhouse/migrate.js'
import { isLocal, replicateStatement, UnreplicableError } from '../../src/clickhouse/replicate-statement.js'
import { startClickHouse, temporaryFolder } from '../helper.js'

const migrations = await readMigrations()
const statements = migrations.flatMap(({ name, statements }) => statements.map((text) => ({ name, text })))
const engine = await startClickHouse(t)

/** Whether a table is not replicated because it only concerns its server. */
const isOwn = (text: string) => /\bENGINE = (Set|Memory)\b/.test(text)

t.test('replicated rewrites every statement of schema/', async (t) => {
  for (const { name, text } of statements) {
    const first = text.replace(/--.*$/gm, '').trim().split('\n')[0]
    const spelled = replicateStatement(text, 'analytics')
    t.notMatch(spelled, /non_replicated_/, `${name}: ${first}`)
    const [, table] = /CREATE TABLE IF NOT EXISTS (\w+)/.exec(text) ?? []
    if (!table) continue
    if (isOwn(text)) {
      t.equal(spelled, text, `${table}: of each server`)
      continue
    }
    const path = `'/clickhouse/tables/{shard}/analytics/${table}', '{replica}'`
    const [, kind = '', given] = /ENGINE = (\w*)MergeTree(?:\((.*)\))?/.exec(text) ?? []
    t.match(spelled, `ENGINE = Replicated${kind}MergeTree(${path}${given ? `, ${given}` : ''})`, table)
    t.match(spelled, 'min_compressed_bytes_to_fsync_after_fetch = 1', `${table}: fetched data is on disk`)
    const [, remembered = '0'] = /non_replicated_deduplication_window = (\d+)/.exec(text) ?? []
    t.match(
      spelled,
      `replicated_deduplication_window = ${remembered}`,
      `${table}: the same number of tokens as without replicas`,
    )
    if (remembered !== '0')
      t.match(spelled, /replicated_deduplication_window_seconds = 7200\b/, `${table}: for two hours`)
  }
})

t.test('ClickHouse accepts the rewritten statements, with their engines and settings', async (t) => {
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  const known = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM system.replicated_merge_tree_settings UNION ALL SELECT name FROM system.settings
     UNION ALL SELECT name FROM system.table_engines WHERE supports_replication`,
  )
  const names = new Set(known.map(({ name }) => name))
  for (const { name, text } of statements) {
    const spelled = replicateStatement(text, 'analytics')
    await t.resolves(clickhouse.command(`EXPLAIN AST ${spelled}`), name)
    if (isOwn(text)) continue
    const created = /\bSETTINGS\b([\s\S]*)$/.exec(spelled)?.[1] ?? /MODIFY SETTING([\s\S]*)$/.exec(spelled)?.[1] ?? ''
    for (const [, setting = ''] of created.matchAll(/\b(\w+)\s*=/g)) t.ok(names.has(setting), `${name}: ${setting}`)
    const engineName = /ENGINE = (\w+)/.exec(spelled)?.[1]
    if (engineName) t.ok(names.has(engineName), `${name}: ${engineName}`)
  }
})

t.test(
  'statements of numbered files are unchanged for a single server, except for deduplication windows',
  async (t) => {
    const same = [
      '-- why\nALTER TABLE events ADD COLUMN IF NOT EXISTS planet String',
      'ALTER TABLE events ADD INDEX IF NOT EXISTS by_planet planet TYPE minmax',
      "ALTER TABLE events UPDATE planet = '' WHERE 0",
      'ALTER TABLE events DELETE WHERE 0',
      'INSERT INTO deletions (kind) SELECT name FROM profiles',
      'ALTER TABLE events MODIFY SETTING merge_selector_base = 13',
    ]
    for (const statement of same) t.equal(replicateStatement(statement, 'analytics'), statement)
    t.equal(
      replicateStatement('ALTER TABLE saved MODIFY SETTING non_replicated_deduplication_window = 10', 'analytics'),
      'ALTER TABLE saved MODIFY SETTING replicated_deduplication_window = 10, replicated_deduplication_window_seconds = 7200',
    )
  },
)

t.test('replicated refuses statements that are not known to be safe', async (t) => {
  const refused = [
    'CREATE TABLE IF NOT EXISTS a (b String) ENGINE = Log',
    'CREATE TABLE IF NOT EXISTS a (b String) ENGINE = SummingMergeTree ORDER BY b SETTINGS fsync_after_insert = 1',
    'CREATE TABLE IF NOT EXISTS a (b String) ENGINE = MergeTree ORDER BY b',
    'CREATE TABLE a (b String) ENGINE = MergeTree ORDER BY b SETTINGS fsync_after_insert = 1',
    'RENAME TABLE a TO b',
    'DROP TABLE a',
    'OPTIMIZE TABLE a FINAL',
    'ALTER TABLE a ADD COLUMN b String',
    'CREATE MATERIALIZED VIEW a TO b AS SELECT 1',
  ]
  for (const statement of refused)
    t.throws(() => replicateStatement(statement, 'analytics'), UnreplicableError, statement)
})

t.test('replicated gives databases of any name their own path in the Keeper', async (t) => {
  const text = 'CREATE TABLE IF NOT EXISTS a (b String) ENGINE = MergeTree ORDER BY b SETTINGS fsync_after_insert = 1'
  t.match(replicateStatement(text, "o'dd/{name}"), 'tables/{shard}/o%27dd%2F%7Bname%7D/a')
})

t.test('isLocal is true for settings, which each replica needs separately', async (t) => {
  t.ok(isLocal('-- why\nALTER TABLE events MODIFY SETTING a = 1'))
  t.notOk(isLocal('ALTER TABLE events ADD COLUMN IF NOT EXISTS a String'))
})

t.test('a new replica gets the current tables, not those of the baseline', async (t) => {
  const folder = await temporaryFolder(t)
  await cp('schema', folder, { recursive: true })
  await writeFile(
    `${folder}/001_countries.sql`,
    `ALTER TABLE events ADD COLUMN IF NOT EXISTS planet String;
ALTER TABLE events MODIFY SETTING merge_selector_base = 13;
`,
  )
  const later = await readMigrations(folder)
  const model = new ClickHouse({ url: engine.url.replace(/analytics$/, 'copied') })
  const server = new ClickHouse({ url: (await startClickHouse(t)).url.replace(/analytics$/, 'copied') })
  t.teardown(() => Promise.all([model.close(), server.close()]))
  const tables = (clickhouse: ClickHouse) =>
    clickhouse.rows<{ name: string; sql: string }>(
      'SELECT name, create_table_query AS sql FROM system.tables WHERE database = currentDatabase() ORDER BY name',
    )
  await migrate(model)
  await copyTables(server, model, migrations)
  t.strictSame(await tables(server), await tables(model))
  await migrate(model, folder)
  await copyTables(server, model, later)
  await copyTables(server, model, later)
  t.match((await tables(server)).find(({ name }) => name === 'events')?.sql, 'merge_selector_base = 13')
  t.strictSame(
    await server.rows('SELECT name FROM schema_migrations FINAL ORDER BY number'),
    later.map(({ name }) => ({ name })),
  )
  await server.commandWithoutDatabase('DROP DATABASE copied')
  await copyTables(server, model, later)
  t.match((await tables(server)).find(({ name }) => name === 'events')?.sql, '`planet` String')
})

t.test('migrate refuses several servers that are not configured as replicas', async (t) => {
  const url = [engine.url, engine.url].map((one, i) => one.replace(/analytics$/, `replica${i}`)).join('|')
  const clickhouse = new ClickHouse({ url })
  t.teardown(() => clickhouse.close())
  await t.rejects(migrate(clickhouse), /needs the macros shard and replica, and a Keeper/)
  const made = new ClickHouse({ url: engine.url.replace(/analytics$/, 'replica0') })
  t.teardown(() => made.close())
  await migrate(made)
  await t.rejects(migrate(clickhouse), /the tables are not replicated/)
})
