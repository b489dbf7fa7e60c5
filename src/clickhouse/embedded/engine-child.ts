/**
 * The entry of the child process that is the embedded ClickHouse. Only `engine-process.ts` starts it, with `fork(…,
 * [path, port, configFile, files])` and, in the environment, the secrets that the configuration file names.
 *
 * The engine runs in a separate thread, so this main thread stays free for the three things that end it:
 * - the IPC channel closes because the parent is gone: immediate SIGKILL to itself. Acknowledged data survives that.
 * - SIGTERM, or the message `stop`: the query that keeps the engine running is killed, which shuts the engine down;
 * SIGKILL at the limit.
 * - the engine exits on its own: its messages are already on stderr.
 * SIGINT and SIGHUP are ignored: the terminal sends them to the whole process group, and the parent decides what they
 * mean.
 */

import { request } from 'node:http'

/** Sent to the parent if the engine cannot be loaded at all; a retry would not help. */
export interface LoadFailure {
  loadFailure: string
}

/** Limit of a clean stop, in ms. It takes about 100 to 700, but never ends while a client keeps a connection open. */
const STOP_LIMIT = 1500

/** Keeps the engine running. A stop takes effect within the 0.1 s of its sleep. */
const KEEP_RUNNING =
  'SELECT sleepEachRow(0.1) FROM system.numbers SETTINGS function_sleep_max_microseconds_per_block=0, max_block_size=1 FORMAT Null'

const [path = '', port = '', configFile = '', files = path] = process.argv.slice(2)
const authorization = process.env.EMBEDDED_CLICKHOUSE_AUTHORIZATION ?? ''
let stopping = false

/** The only way out: `process.exit` would run the destructors of a library whose threads still run. */
function end(): void {
  process.kill(process.pid, 'SIGKILL')
}

function stop(): void {
  if (stopping) return
  stopping = true
  setTimeout(end, STOP_LIMIT)
  const sql = `KILL QUERY WHERE query = '${KEEP_RUNNING}' ASYNC`
  // `connection: close`, because the shutdown waits for kept-alive connections. If nothing listens yet, there is
  // nothing to stop cleanly. We do not use `fetch`, whose first call in a process compiles for 0.15 s.
  const options = { host: '127.0.0.1', port, method: 'POST', headers: { authorization, connection: 'close' } }
  const call = request(options, (response) => response.resume())
  call.on('error', end).end(sql)
}

async function run(): Promise<void> {
  const { DataType, load, open } = await import('ffi-rs')
  const { libchdbPath } = await import('chdb/libchdb')
  // ClickHouse takes its time zone from here: run as a library, it does not read `timezone` from its configuration.
  process.env.TZ = 'UTC'
  // ClickHouse would read a `config.xml` in the working directory, and exposes its files as tables of `default`.
  process.chdir(files)
  open({ library: 'chdb', path: libchdbPath() })
  const argv = [
    'clickhouse',
    `--config-file=${configFile}`,
    `--path=${path}`,
    `--http_port=${port}`,
    '--listen_host=127.0.0.1',
    `--query=CREATE DATABASE IF NOT EXISTS analytics ENGINE=Atomic; SYSTEM START LISTEN HTTP; ${KEEP_RUNNING}`,
  ]
  // The result is ignored: after an error it is a null pointer, and the message went to stderr.
  const ended = load({
    library: 'chdb',
    funcName: 'chdb_query_cmdline',
    retType: DataType.External,
    paramsType: [DataType.I32, DataType.StringArray],
    paramsValue: [argv.length, argv],
    runInNewThread: true,
  })
  void Promise.resolve(ended).finally(end)
}

process.on('disconnect', end)
process.on('SIGINT', () => {})
process.on('SIGHUP', () => {})
process.on('SIGTERM', stop)
process.on('message', (message) => {
  if (message === 'stop') stop()
})

// The parent may have exited before the handler above was installed.
if (!process.connected) end()

run().catch((error: unknown) => {
  const failure: LoadFailure = { loadFailure: error instanceof Error ? error.message : String(error) }
  process.send?.(failure, end)
})
