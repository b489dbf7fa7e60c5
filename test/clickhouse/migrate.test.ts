import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, writeFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { openShards } from '../../src/clickhouse/open-shards.js'
import { OtherVersionError } from '../../src/contract/errors.js'
import { startClickHouse, temporaryFolder, until } from '../helper.js'

const engine = await startClickHouse(t, await temporaryFolder(t))

/** The schema of a later release, with one numbered file. */
async function withFile(t: Test, name: string, text: string): Promise<string> {
  const folder = await temporaryFolder(t)
  await cp('schema', folder, { recursive: true })
  await writeFile(`${folder}/${name}`, text)
  return folder
}

function openDatabase(t: Test, name: string): ClickHouse {
  const clickhouse = new ClickHouse({ url: urlOf(name) })
  t.teardown(() => clickhouse.close())
  return clickhouse
}

function urlOf(database: string): string {
  return engine.url.replace(/analytics$/, database)
}

async function applied(clickhouse: ClickHouse): Promise<string[]> {
  const rows = await clickhouse.rows<{ name: string }>('SELECT name FROM schema_migrations FINAL ORDER BY number')
  return rows.map(({ name }) => name)
}

async function columnsOfEvents(clickhouse: ClickHouse): Promise<string[]> {
  const rows = await clickhouse.rows<{ name: string }>(
    "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'events'",
  )
  return rows.map(({ name }) => name)
}

t.test('migrate makes the tables once, even if several services start', async (t) => {
  const clickhouse = openDatabase(t, 'an%60other')
  await Promise.all([migrate(clickhouse), migrate(clickhouse), migrate(clickhouse)])
  await migrate(clickhouse)
  t.strictSame(await applied(clickhouse), ['baseline'])
})

t.test('the tables survive a power failure after INSERTs and merges', async (t) => {
  const clickhouse = openDatabase(t, 'analytics')
  await migrate(clickhouse)
  const tables = await clickhouse.rows<{ name: string; sql: string }>(
    "SELECT name, create_table_query AS sql FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'",
  )
  t.ok(tables.length > 10)
  // The files of the first may be applied again, and a start removes the rows of the second.
  const others = ['schema_migrations', 'session_facts']
  for (const { name, sql } of tables.filter(({ name }) => !others.includes(name))) {
    for (const setting of ['fsync_after_insert', 'fsync_part_directory', 'min_rows_to_fsync_after_merge']) {
      t.match(sql, `${setting} = 1`, `${name}: ${setting}`)
    }
  }
})

t.test('migrate refuses a store of another baseline, and says what to do', async (t) => {
  const refused = {
    name: 'OtherVersionError',
    message:
      'The database was made by another version of Tallyhouse. Run `tallyhouse export --all FOLDER` with that version, ' +
      'then `tallyhouse import --all FOLDER` with this one into an empty store and journal.',
  }
  const former = openDatabase(t, 'former')
  await migrate(former)
  await former.command('TRUNCATE TABLE schema_migrations')
  // Like the stores from before the baseline.
  await former.command("INSERT INTO schema_migrations VALUES (1, '001_events.sql', 'an earlier checksum', now())")
  await t.rejects(migrate(former), refused)

  const other = openDatabase(t, 'other')
  await migrate(other, await withFile(t, 'more.sql', 'CREATE TABLE IF NOT EXISTS more (a String) ENGINE = Memory;\n'))
  await t.rejects(migrate(other), refused)
})

t.test('migrate accepts a changed comment in the baseline', async (t) => {
  const clickhouse = openDatabase(t, 'commented')
  await migrate(clickhouse, await withFile(t, 'more.sql', '-- Nothing yet; later\n-- some more;\n'))
  await migrate(clickhouse)
  t.strictSame(await applied(clickhouse), ['baseline'])
})

t.test("migrate applies a numbered file to each shard of an earlier release's store", async (t) => {
  const shards = openShards([urlOf('shard0'), urlOf('shard1')].join(','))
  t.teardown(() => shards.close())
  await shards.each(({ clickhouse }) => migrate(clickhouse))
  const folder = await withFile(
    t,
    '001_countries.sql',
    '-- a comment;\nALTER TABLE events ADD COLUMN IF NOT EXISTS country String;\n',
  )
  await shards.each(({ clickhouse }) => migrate(clickhouse, folder))
  await shards.each(async ({ clickhouse }) => {
    t.ok((await columnsOfEvents(clickhouse)).includes('country'))
    t.strictSame(await applied(clickhouse), ['baseline', '001_countries.sql'])
    await t.rejects(migrate(clickhouse), new OtherVersionError('The database (migration 001_countries.sql)', true))
  })
  await writeFile(`${folder}/001_countries.sql`, 'ALTER TABLE events ADD COLUMN IF NOT EXISTS city String;\n')
  await t.rejects(migrate(shards.first, folder), /001_countries.sql was changed after it was applied/)
})

t.test('migrate completes a file that a killed process began', async (t) => {
  const clickhouse = openDatabase(t, 'killed')
  await migrate(clickhouse)
  const folder = await withFile(
    t,
    '001_countries.sql',
    `ALTER TABLE events ADD COLUMN IF NOT EXISTS country String;
CREATE TABLE IF NOT EXISTS slow (a UInt8) ENGINE = Memory;
INSERT INTO slow SELECT sleep(2);
ALTER TABLE events ADD COLUMN IF NOT EXISTS city String;
`,
  )
  const source = (path: string) => JSON.stringify(new URL(`../../src/clickhouse/${path}`, import.meta.url).href)
  const script = `
const { ClickHouse } = await import(${source('client.js')})
const { migrate } = await import(${source('migrate.js')})
await migrate(new ClickHouse({ url: ${JSON.stringify(urlOf('killed'))} }), ${JSON.stringify(folder)})`
  const service = spawn(process.execPath, [...process.execArgv, '--input-type=module', '-e', script], {
    stdio: 'ignore',
  })
  t.teardown(() => service.kill('SIGKILL'))
  await until('the first statement', async () => (await columnsOfEvents(clickhouse)).includes('country'))
  service.kill('SIGKILL')
  await once(service, 'exit')
  t.strictSame(await applied(clickhouse), ['baseline'])
  await migrate(clickhouse, folder)
  t.ok((await columnsOfEvents(clickhouse)).includes('city'))
  t.strictSame(await applied(clickhouse), ['baseline', '001_countries.sql'])
})
