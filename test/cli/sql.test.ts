import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import type { CommandIo } from '../../src/cli/command.js'
import { command as sql } from '../../src/cli/sql.js'
import { ClickHouse } from '../../src/clickhouse/client.js'
import { migrate } from '../../src/clickhouse/migrate.js'
import { type Client, settingsFor, startApp, startClickHouse, temporaryFolder } from '../helper.js'
import { NO_FULL_DISK, runCommand, runOnFullDisk, startCommand } from './command-line.js'

/** Runs the command in this process, and returns its output. */
async function run(env: NodeJS.ProcessEnv, args: string[], { stdin = '', isTTY = false } = {}): Promise<string> {
  const stdout = Object.assign(new PassThrough(), { isTTY })
  const io: CommandIo = {
    env,
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout,
    stderr: new PassThrough(),
    signal: new AbortController().signal,
  }
  const printed = text(stdout)
  try {
    await sql.run(args, io)
  } finally {
    stdout.end()
  }
  return await printed
}

async function fill({ call }: Client): Promise<void> {
  await call('POST', '/public/track', { event: 'signed up', distinct_id: 'ada', properties: { price: 9.9 } })
  for (const plan of ['free', 'pro']) {
    await call('POST', '/public/users/identify', { distinct_id: 'ada', properties: { plan } })
    // Once read, each is a separate row.
    await call('GET', '/public/users?limit=1')
  }
  await call('GET', '/public/events')
}

t.test('tallyhouse sql', async (t) => {
  const env = { ...(await settingsFor(t, 'embedded')), FACTS: 'off' }
  const client = await startApp(t, env)
  await fill(client)

  t.test('sql queries the store of a running service', async (t) => {
    const query = "SELECT event, JSONExtractFloat(properties, 'price') AS price FROM events;"
    t.equal(await run(env, [query]), 'event\tprice\nsigned up\t9.9\n')
    t.match(await run(env, [query], { isTTY: true }), /│ signed up │ {3}9\.9 │/, 'a table on a terminal')
    t.equal(await run(env, [query, '--format', 'csv']), '"event","price"\n"signed up",9.9\n')
    t.equal(await run(env, ['--format', 'ndjson'], { stdin: query }), '{"event":"signed up","price":9.9}\n')
    t.equal(await run(env, [`${query.slice(0, -1)} FORMAT TSV`]), 'signed up\t9.9\n', 'FORMAT in the query wins')
    const profiles = 'SELECT properties FROM profiles FORMAT TSVRaw'
    t.equal(await run(env, [profiles]), '{"plan":"pro"}\n', 'only the newest version')
  })

  t.test('sql says that the disk of its output is full', { skip: NO_FULL_DISK }, async (t) => {
    const { code, stderr } = await runOnFullDisk(['sql', 'SELECT * FROM numbers(1e6)'], env)
    t.equal(code, 1)
    t.match(stderr, /^Store: .*\nThe output cannot be written: The disk of the file is full\.\n$/)
  })

  t.test('the reader of sql may close the output', async (t) => {
    const child = startCommand(['sql', 'SELECT * FROM numbers(1e6)'], env)
    const { stdout, stderr } = child
    if (!stdout || !stderr) throw new Error('no pipes')
    const messages = text(stderr)
    await once(stdout, 'data')
    stdout.destroy()
    t.strictSame(await once(child, 'exit'), [0, null])
    t.match(await messages, /^Store: .*\n$/)
  })

  t.test('sql --files queries exported files, with no store at all', async (t) => {
    const url = await client.app.listen({ host: '127.0.0.1', port: 0 })
    const folder = await temporaryFolder(t)
    const nowhere = { DATA_DIR: join(folder, 'nowhere') }
    for (const [output, name] of [
      ['shop.parquet', 'shop.parquet/*.parquet'],
      ['shop.csv', 'shop.csv'],
      ['shop.ndjson', 'shop.ndjson'],
    ] as const) {
      const args = ['export', '--url', url, '--output', join(folder, output)]
      t.equal((await runCommand(args, '', env)).code, 0, output)
      const query = `SELECT event, count() AS events FROM file('${name}') GROUP BY event`
      t.equal(await run(nowhere, ['--files', folder, query]), 'event\tevents\nsigned up\t1\n', name)
    }
    const write = "INSERT INTO FUNCTION file('x.csv') SELECT 1"
    await t.rejects(run(nowhere, ['--files', folder, write]), /only reads/)
    await t.rejects(run(nowhere, ['--files', join(folder, 'none'), 'SELECT 1']), /none is not a folder/)
  })

  t.test('the queries in the manuals run as they are printed', async (t) => {
    await client.call('POST', '/public/users/alias', { distinct_id: 'ada', alias: 'visitor-7' })
    await client.call('POST', '/public/users/alias', { distinct_id: 'visitor-7', alias: 'visitor-6' })
    for (const distinct_id of ['ada', 'visitor-7', 'visitor-6', '$anonymous', 'bob']) {
      await client.call('POST', '/public/track', { event: 'signed up', distinct_id })
    }
    await client.call('GET', '/public/events')
    const results = new Map<string, string>()
    for (const document of ['docs/sql.md', 'docs/operations.md']) {
      for (const [, query = ''] of (await readFile(document, 'utf8')).matchAll(/^```sql\n([\s\S]*?)^```$/gm)) {
        // A store with one shard has no such tables.
        if (!query.includes('_all')) results.set(query, await run(env, [query]))
      }
    }
    t.ok(results.size > 3)
    const users = [...results].filter(([query]) => query.includes(' AS users\nFROM events AS e'))
    t.strictSame(
      users.map(([, result]) => result),
      ['users\n2\n'],
      'names of one user count once',
    )
  })

  t.test('sql queries the store of a service that has ended', async (t) => {
    await client.app.close()
    const query = "SELECT event, JSONExtractFloat(properties, 'price') AS price FROM events WHERE price > 0"
    t.equal(await run(env, [query]), 'event\tprice\nsigned up\t9.9\n')
  })

  t.test('sql cannot change anything on a server either', async (t) => {
    const { url } = await startClickHouse(t)
    const clickhouse = new ClickHouse({ url })
    await migrate(clickhouse)
    await clickhouse.close()
    t.equal(await run({ CLICKHOUSE_URL: url }, ['SELECT count() FROM events FORMAT TSV']), '0\n')
    const refused: [query: string, message: RegExp][] = [
      ['INSERT INTO journals VALUES (1, 1)', /only reads/],
      ['DELETE FROM events WHERE 1', /only reads/],
      ['TRUNCATE TABLE events', /only reads/],
      ['DROP DATABASE analytics', /only reads/],
      ['KILL QUERY WHERE 1', /only reads/],
      ['SYSTEM STOP MERGES', /only reads/],
      ["BACKUP TABLE events TO File('x')", /only reads/],
      ['SELECT 1; DROP TABLE events', /Multi-statements/],
      ['SELECT 1 SETTINGS readonly = 0', /without SETTINGS/],
      ["SELECT file('/etc/hostname')", /--files/],
      ["WITH x AS (SELECT `file`('/etc/hostname')) SELECT * FROM x", /--files/],
      ["SELECT * FROM file('/etc/hostname', 'LineAsString')", /--files/],
      ["SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", /not available|does not allow|only reads/],
      ["SELECT * FROM remote('127.0.0.1', 'system', 'one')", /does not allow|only reads/],
      ['SELECT * FRO events', /Syntax error.* position 14/],
      ['SELECT * FROM evnts', /Maybe you meant/],
      ['SELECT sleepEachRow(0.02) FROM numbers(100)', /aborted after 1 s\. .*--timeout/],
    ]
    for (const [query, message] of refused) {
      await t.rejects(run({ CLICKHOUSE_URL: url }, ['--timeout', '1', query]), { message }, query)
    }
    for (const [args, message] of [
      [[''], /query is empty/],
      [['SELECT', '1'], /quotes/],
      [['SELECT 1', '--format', 'a b'], /--format/],
      [['SELECT 1', '--timeout', '0'], /--timeout/],
    ] as const) {
      await t.rejects(run({ CLICKHOUSE_URL: url }, [...args]), { name: 'UsageError', message })
    }
  })
})
