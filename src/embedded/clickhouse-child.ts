/**
 * The entry of the child process that is the embedded ClickHouse. Only `clickhouse.ts` starts it, with `fork(…, [path, port, configFile])`
 * and, in the environment, the secrets that the configuration file names.
 *
 * The engine runs in threads of its own. This main thread says to those that merge to give way, and stays free for what ends it:
 * - the IPC channel closes (the parent is gone, however it went): SIGKILL to itself at once. What ClickHouse acknowledged survives that.
 * - SIGTERM, or the message `stop`: the query that keeps the engine running is killed, which shuts the engine down; SIGKILL at the limit.
 * - the engine ends by itself: what it had to say is on stderr already.
 * SIGINT and SIGHUP are ignored: the terminal sends them to the whole process group, and the parent decides what they mean.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setPriority } from 'node:os'

/** Sent to the parent when the engine cannot be loaded at all; trying again would not help. */
export interface LoadFailure {
  loadFailure: string
}

/** Limit of a clean stop, in ms; it takes about 100 to 700, but as long as a client keeps a connection open it does not come to an end. */
const STOP_LIMIT = 1500

/** Keeps the engine running, and a stop is noticed within the 0.1 s of its sleep. */
const KEEP_RUNNING =
  'SELECT sleepEachRow(0.1) FROM system.numbers SETTINGS function_sleep_max_microseconds_per_block=0, max_block_size=1 FORMAT Null'

/**
 * How far merges stand behind requests, 0 to 19 (`man 2 setpriority`). A merge holds a core for some 50 ms: at 0 the slowest 1 % of
 * single events took 20 ms and more on 2 cores, at 5 to 15 some 11. The more, the more parts wait to be merged under full load: of
 * 500 000 events/s in batches about 15 at 0, 25 at 5 and 100 at 15 after minutes of it.
 */
const MERGE_NICENESS = 5
const MERGE_THREAD = 'MergeMutate'
/** Between two looks for the threads that merge, in ms. */
const LOOK_INTERVAL = 500

const [path = '', port = '', configFile = ''] = process.argv.slice(2)
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
  // `connection: close`, as the shutdown waits for connections that are kept alive. If nothing listens yet, nothing needs a clean stop.
  const headers = { authorization, connection: 'close' }
  fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: sql, headers }).catch(end)
}

async function run(): Promise<void> {
  const { DataType, load, open } = await import('ffi-rs')
  const { libchdbPath } = await import('chdb/libchdb')
  // ClickHouse takes its time zone from here: run as a library, it does not read `timezone` from its configuration.
  process.env.TZ = 'UTC'
  // A `config.xml` in the working directory would be read, and its files be tables of the database `default`.
  process.chdir(path)
  open({ library: 'chdb', path: libchdbPath() })
  const argv = [
    'clickhouse',
    `--config-file=${configFile}`,
    `--path=${path}`,
    `--http_port=${port}`,
    '--listen_host=127.0.0.1',
    `--query=CREATE DATABASE IF NOT EXISTS analytics ENGINE=Atomic; SYSTEM START LISTEN HTTP; ${KEEP_RUNNING}`,
  ]
  // The result is not read: after an error it is a null pointer, and the error's text went to stderr.
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

/**
 * The engine has a setting for it, `os_threads_nice_value_merge_mutate`, which works for root only; giving way is anybody's right.
 * The threads come with the first table, their names a moment later. On another system than Linux nothing happens.
 */
function putMergesBehind(): void {
  let before = 0
  const looking = setInterval(() => {
    const count = putBehind(MERGE_THREAD)
    if (count > 0 && count === before) clearInterval(looking)
    before = count
  }, LOOK_INTERVAL)
}

/** @returns how many threads of that name there are */
function putBehind(name: string): number {
  const folder = '/proc/self/task'
  let count = 0
  for (const id of existsSync(folder) ? readdirSync(folder) : []) {
    try {
      if (readFileSync(`${folder}/${id}/comm`, 'utf8').trimEnd() !== name) continue
      setPriority(Number(id), MERGE_NICENESS)
      count++
    } catch {
      // It has just ended, or this system forbids it; merges go on as before.
    }
  }
  return count
}

process.on('disconnect', end)
process.on('SIGINT', () => {})
process.on('SIGHUP', () => {})
process.on('SIGTERM', stop)
process.on('message', (message) => {
  if (message === 'stop') stop()
})

// The parent may have gone before the handler above was there.
if (!process.connected) end()

putMergesBehind()

run().catch((error: unknown) => {
  const failure: LoadFailure = { loadFailure: error instanceof Error ? error.message : String(error) }
  process.send?.(failure, end)
})
