import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from '../../src/clickhouse/embedded/engine.js'
import { until } from '../helper.js'

/** Closing takes 1.5 s on an idle machine; without the limit in the code, it would never end. */
const CLOSED_MS = 20_000

const quiet = { info: () => {}, warn: () => {}, error: () => {} }

async function tempDir(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'tallyhouse-embedded-'))
  t.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 5 }))
  return dir
}

/** Starts an engine, and closes it after the test, which fails if a process survives. */
async function start(t: Test, path: string, log = quiet): Promise<EmbeddedClickHouse> {
  const engine = await startEmbeddedClickHouse({ path, log })
  t.teardown(async () => {
    const pid = engine.pid()
    await engine.close()
    if (pid !== undefined && (await isRunning(pid))) throw new Error(`process ${pid} was leaked`)
  })
  return engine
}

/** `fetch` takes no credentials in a URL. */
function authorizationOf(engine: EmbeddedClickHouse): string {
  const { username, password } = new URL(engine.url)
  return basic(username, password)
}

function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

async function ask(engine: EmbeddedClickHouse, sql: string, settings = ''): Promise<string> {
  const { origin } = new URL(engine.url)
  const response = await fetch(`${origin}/?database=analytics${settings}`, {
    method: 'POST',
    body: sql,
    headers: { authorization: authorizationOf(engine), connection: 'close' },
  })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text.trimEnd()
}

/** Whether a process is running; a zombie is not. */
async function isRunning(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  if (stat !== undefined) return !/\) [ZX] /.test(stat)
  try {
    process.kill(pid, 0)
    return process.platform !== 'linux'
  } catch {
    return false
  }
}

function pidOf(engine: EmbeddedClickHouse): number {
  const pid = engine.pid()
  if (pid === undefined) throw new Error('the engine has no process')
  return pid
}

t.test('answers over HTTP, in UTC, and logs only queries that ask for it, in memory', async (t) => {
  const before = performance.now()
  const engine = await start(t, await tempDir(t))
  t.comment(`started in ${Math.round(performance.now() - before)} ms`)
  t.match(engine.url, /^http:\/\/tallyhouse:[\w-]{43}@127\.0\.0\.1:\d+\/analytics$/)
  t.equal(engine.state(), 'up')
  t.equal(await ask(engine, 'SELECT timezone(), currentDatabase(), currentUser()'), 'UTC\tanalytics\ttallyhouse')
  await ask(engine, 'SYSTEM FLUSH LOGS')
  t.equal(
    await ask(
      engine,
      `SELECT name, engine, total_rows FROM system.tables WHERE database = 'system' AND name LIKE '%\\_log'`,
    ),
    'query_log\tMemory\t0',
  )
  await ask(engine, "SELECT 'ann'", '&log_queries_probability=1')
  await ask(engine, 'SYSTEM FLUSH LOGS')
  t.equal(await ask(engine, "SELECT query LIKE '%ann%' FROM system.query_log"), '1')
})

t.test('refuses clients without the password', async (t) => {
  const path = await tempDir(t)
  const engine = await start(t, path)
  await ask(engine, 'CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n')
  const { origin, username, password } = new URL(engine.url)
  const sql = 'DROP TABLE analytics.kept'
  const refused = async (parameters: Record<string, string>, headers: Record<string, string>) => {
    const inUrl = await fetch(`${origin}/?${new URLSearchParams({ ...parameters, query: sql })}`, {
      method: 'POST',
      headers,
    })
    t.equal(inUrl.status, 403)
    const inBody = await fetch(`${origin}/?${new URLSearchParams(parameters)}`, { method: 'POST', body: sql, headers })
    t.equal(inBody.status, 403)
    t.equal(await inBody.text(), 'The user or the password is wrong.\n')
  }
  await refused({}, {})
  await refused({}, { authorization: '' })
  await refused({}, { authorization: basic('default', '') })
  await refused({}, { authorization: basic('default', password) })
  await refused({}, { authorization: basic(username, '') })
  await refused({}, { authorization: basic(username, password.slice(0, -1)) })
  await refused({ user: 'default' }, {})
  await refused({ user: 'default', password: '' }, { 'x-clickhouse-user': 'default', 'x-clickhouse-key': '' })
  t.equal((await fetch(`${origin}/play`)).status, 403)
  t.equal((await fetch(`${origin}/ping`)).status, 200, 'a health check is open')
  t.equal(await ask(engine, 'SELECT count() FROM kept'), '0', 'the table is still there')

  await t.rejects(ask(engine, `SELECT * FROM file('/etc/passwd', LineAsString)`), { message: /ACCESS_DENIED/ })
  t.equal(
    await ask(engine, 'SHOW GRANTS FOR default'),
    [
      'GRANT CREATE DATABASE, CREATE TEMPORARY TABLE, SYSTEM LISTEN ON *.* TO default',
      'GRANT TABLE ENGINE ON Atomic TO default',
      'GRANT SELECT ON system.numbers TO default',
    ].join('\n'),
    'anyone who got past the rules could do little',
  )
  t.notMatch(await readFile(join(path, 'embedded-clickhouse.xml'), 'utf8'), password)
  if (process.platform === 'linux') {
    t.notMatch(await readFile(`/proc/${pidOf(engine)}/cmdline`, 'utf8'), password, 'ps does not show it')
  }
  const other = await start(t, await tempDir(t))
  t.not(new URL(other.url).password, password)
})

t.test('takes large bodies and long URLs, merges and mutates', async (t) => {
  const engine = await start(t, await tempDir(t))
  await ask(engine, 'CREATE TABLE lines (line String) ENGINE = MergeTree ORDER BY tuple()')
  const line = `${'x'.repeat(999)}\n`
  await ask(engine, `INSERT INTO lines FORMAT LineAsString\n${line.repeat(50_000)}`)
  t.equal(await ask(engine, 'SELECT count(), sum(length(line)) FROM lines'), '50000\t49950000')

  const { origin } = new URL(engine.url)
  const response = await fetch(`${origin}/?query=SELECT+length({p:String})&param_p=${'1'.repeat(100_000)}`, {
    headers: { authorization: authorizationOf(engine) },
  })
  t.equal((await response.text()).trimEnd(), '100000')

  await ask(engine, `INSERT INTO lines VALUES ('y')`)
  await ask(engine, `ALTER TABLE lines UPDATE line = 'z' WHERE 1 SETTINGS mutations_sync = 1`)
  await ask(engine, 'OPTIMIZE TABLE lines FINAL')
  t.equal(await ask(engine, `SELECT count(), uniq(_part) FROM lines WHERE line = 'z'`), '50001\t1')
  const niceness = `SELECT value FROM system.server_settings WHERE name = 'os_threads_nice_value_merge_mutate'`
  t.equal(await ask(engine, niceness), '5', 'merges give way')
})

t.test('restarts after a SIGKILL on the same URL with its data', async (t) => {
  const warnings: unknown[] = []
  const engine = await start(t, await tempDir(t), { ...quiet, warn: (...args: unknown[]) => warnings.push(args) })
  await ask(engine, 'CREATE TABLE kept (n UInt64) ENGINE = MergeTree ORDER BY n')
  await ask(engine, 'INSERT INTO kept SELECT number FROM numbers(1000)')
  const { url } = engine

  for (const expected of [1, 2]) {
    const killed = pidOf(engine)
    process.kill(killed, 'SIGKILL')
    await until('the death is noticed', () => engine.pid() !== killed)
    await until('it is up again', () => engine.state() === 'up')
    t.equal(warnings.length, expected)
    t.match(JSON.stringify(warnings.at(-1)), /SIGKILL/)
    t.equal(engine.url, url)
    t.equal(await ask(engine, 'SELECT count() FROM kept'), '1000')
  }
})

t.test('stays closed, and its process is gone', async (t) => {
  const engine = await start(t, await tempDir(t))
  const pid = pidOf(engine)
  const before = performance.now()
  const closing = engine.close()
  t.equal(engine.close(), closing, 'callers share one promise')
  await closing
  const took = performance.now() - before
  t.comment(`closed in ${Math.round(took)} ms`)
  t.ok(took < CLOSED_MS)
  t.equal(engine.state(), 'closed')
  t.equal(engine.pid(), undefined)
  t.notOk(await isRunning(pid))
})

t.test('closes within its limit even if the process hangs or is being restarted', async (t) => {
  const engine = await start(t, await tempDir(t))
  const pid = pidOf(engine)
  process.kill(pid, 'SIGSTOP')
  const before = performance.now()
  await engine.close()
  t.ok(performance.now() - before < CLOSED_MS)
  t.notOk(await isRunning(pid))

  const other = await start(t, await tempDir(t))
  process.kill(pidOf(other), 'SIGKILL')
  await until('it restarts', () => other.state() === 'restarting')
  await other.close()
  t.equal(other.state(), 'closed')
  t.equal(other.pid(), undefined)
})

t.test('a terminal’s Ctrl-C does not end it, SIGTERM does, and then it is restarted', async (t) => {
  const engine = await start(t, await tempDir(t))
  const pid = pidOf(engine)
  process.kill(pid, 'SIGINT')
  process.kill(pid, 'SIGHUP')
  t.equal(await ask(engine, 'SELECT 1'), '1')
  t.equal(engine.pid(), pid)
  process.kill(pid, 'SIGTERM')
  await until('it restarts', () => engine.state() === 'restarting')
  await until('it is up again', () => engine.state() === 'up')
  t.not(engine.pid(), pid)
})

t.test('one engine per folder', async (t) => {
  const path = await tempDir(t)
  const engine = await start(t, path)
  await t.rejects(startEmbeddedClickHouse({ path, log: quiet, ownerWait: 0 }), {
    message: `The folder ${path} is in use by another ClickHouse (process ${pidOf(engine)}). Stop the service that runs it, or set another DATA_DIR.`,
  })
  t.equal(await ask(engine, 'SELECT 1'), '1', 'the owner is not disturbed')

  const next = startEmbeddedClickHouse({ path, log: quiet })
  await engine.close()
  const successor = await next
  t.teardown(() => successor.close())
  t.equal(await ask(successor, 'SELECT 1'), '1', 'a folder that is released during the wait is taken over')
})

t.test('a port in use', async (t) => {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  await t.rejects(startEmbeddedClickHouse({ path: await tempDir(t), log: quiet, port }), {
    message: `port ${port} of 127.0.0.1, which ClickHouse must listen on, is in use`,
  })
})

t.test('without its packages, it says what to do', async (t) => {
  // The package looks where this variable says, and fails if nothing is there.
  process.env.CHDB_LIBCHDB_PATH = '/nowhere/libchdb.so'
  t.teardown(() => delete process.env.CHDB_LIBCHDB_PATH)
  await t.rejects(startEmbeddedClickHouse({ path: await tempDir(t), log: quiet }), {
    message: /cannot be loaded on .*npm install --include=optional.*CLICKHOUSE_URL/,
  })
})

t.test('ends with its parent, even if that is killed', async (t) => {
  const path = await tempDir(t)
  const script = join(path, 'parent.mjs')
  const source = new URL(`../../src/clickhouse/embedded/engine.js`, import.meta.url).href
  await writeFile(
    script,
    `import { startEmbeddedClickHouse } from ${JSON.stringify(source)}
const log = { info() {}, warn() {}, error() {} }
const engine = await startEmbeddedClickHouse({ path: ${JSON.stringify(join(path, 'data'))}, log })
console.log(engine.pid())`,
  )
  const parent = spawn(process.execPath, [...process.execArgv, script], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => parent.kill('SIGKILL'))
  const [line] = await once(parent.stdout.setEncoding('utf8'), 'data')
  const pid = Number(line)
  t.ok(await isRunning(pid))
  parent.kill('SIGKILL')
  await until('the orphan ends', async () => !(await isRunning(pid)))
})
