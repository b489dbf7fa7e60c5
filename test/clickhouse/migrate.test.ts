import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import t from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate, SchemaError } from '../../src/clickhouse/migrate.js'
import { Shards } from '../../src/clickhouse/shards.js'
import { Purge } from '../../src/users/erasure/purge.js'
import { silent, startClickHouse, temporaryFolder } from '../helper.js'

const engine = await startClickHouse(t, await temporaryFolder(t))

t.test('the files of schema/ are applied once, in their order, by however many services start', async (t) => {
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  await Promise.all([migrate(clickhouse), migrate(clickhouse), migrate(clickhouse)])
  await migrate(clickhouse)
  const applied = await clickhouse.rows<{ name: string }>('SELECT name FROM schema_migrations FINAL ORDER BY number')
  const files = (await readdir('schema')).sort()
  t.strictSame(
    applied.map(({ name }) => name),
    files,
  )
})

t.test('what is in a table survives a power cut, when it is inserted and when it is merged', async (t) => {
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())
  await migrate(clickhouse)
  const tables = await clickhouse.rows<{ name: string; sql: string }>(
    "SELECT name, create_table_query AS sql FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'",
  )
  // Its files may be applied again.
  for (const { name, sql } of tables.filter(({ name }) => name !== 'schema_migrations')) {
    for (const setting of ['fsync_after_insert', 'fsync_part_directory', 'min_rows_to_fsync_after_merge']) {
      t.match(sql, `${setting} = 1`, `${name}: ${setting}`)
    }
  }
})

t.test('what was deleted under an earlier schema is found and taken off the disk', async (t) => {
  const earlier = await temporaryFolder(t)
  await cp('schema', earlier, { recursive: true, filter: (file) => !/(009|0[1-9]\d)_\w+\.sql$/.test(file) })
  const clickhouse = new ClickHouse({ url: engine.url.replace(/analytics$/, 'upgraded') })
  t.teardown(() => clickhouse.close())
  await migrate(clickhouse, earlier)
  await clickhouse.command("INSERT INTO profiles VALUES ('p', 'ada', '{}', 1, 1, 1, 0), ('p', 'bob', '{}', 1, 1, 2, 0)")
  await clickhouse.command("INSERT INTO profiles VALUES ('p', 'ada', '', 0, 0, 3, 1)")
  await clickhouse.command("INSERT INTO sessions (project_id, session_id, version) VALUES ('p', 's', 1)")
  await clickhouse.command("INSERT INTO sessions (project_id, session_id, version, is_deleted) VALUES ('p', 's', 2, 1)")
  // As an erasure from a letter was done then.
  await clickhouse.command("INSERT INTO dead_letters (position, body) VALUES (1, 'ada,bob')")
  await clickhouse.command("ALTER TABLE dead_letters UPDATE body = 'bob' WHERE 1", {}, { mutations_sync: '1' })
  await migrate(clickhouse)
  const purge = new Purge({
    shards: Shards.of(clickhouse),
    barrier: { waitForAll: async () => 0n },
    log: silent,
    intervalMs: 1,
  })
  t.teardown(() => purge.close())
  await purge.now('p')
  t.strictSame(await clickhouse.rows('SELECT distinct_id, version FROM profiles ORDER BY ALL'), [
    { distinct_id: 'ada', version: '3' },
    { distinct_id: 'bob', version: '2' },
  ])
  t.strictSame(await clickhouse.rows('SELECT version FROM sessions'), [{ version: '2' }])
  const [table] = await clickhouse.rows<{ path: string; sql: string }>(
    `SELECT data_paths[1] AS path, create_table_query AS sql FROM system.tables
     WHERE database = currentDatabase() AND name = 'dead_letters'`,
  )
  t.match(table?.sql, 'finished_mutations_to_keep = 1', 'ClickHouse removes the file of the earlier mutation soon')
  const names = (await readdir(table?.path ?? '')).filter((name) => name.startsWith('mutation_')).sort()
  t.match(await readFile(`${table?.path}/${names.at(-1)}`, 'utf8'), 'DELETE WHERE 0', 'and keeps one that has no data')
})

t.test('in a folder of our own', async (t) => {
  const schema = await temporaryFolder(t)
  await cp('schema', schema, { recursive: true })
  const clickhouse = new ClickHouse({ url: engine.url })
  t.teardown(() => clickhouse.close())

  t.test('a new file is applied', async (t) => {
    await writeFile(
      `${schema}/900_more.sql`,
      '-- a comment;\nCREATE TABLE IF NOT EXISTS more (a String) ENGINE = Memory;\n',
    )
    await migrate(clickhouse, schema)
    t.strictSame(await clickhouse.rows('SELECT * FROM more'), [])
  })

  t.test('a newer schema is refused', async (t) => {
    await t.rejects(
      migrate(clickhouse),
      new SchemaError(
        'The database has migration 900_more.sql, which this version does not know. Start a newer version.',
      ),
    )
  })

  t.test('a file that was changed after it was applied is refused', async (t) => {
    await writeFile(`${schema}/900_more.sql`, 'CREATE TABLE IF NOT EXISTS more (b String) ENGINE = Memory;\n')
    await t.rejects(migrate(clickhouse, schema), /900_more.sql was changed after it was applied/)
  })
})

t.test('a database that is missing is made', async (t) => {
  const clickhouse = new ClickHouse({ url: engine.url.replace(/analytics$/, 'an%60other') })
  t.teardown(() => clickhouse.close())
  await migrate(clickhouse)
  t.ok((await clickhouse.rows('SELECT 1 FROM schema_migrations')).length > 0)
})
