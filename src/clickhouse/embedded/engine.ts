import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { extname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Backoff, retry } from '../../lib/backoff.js'
import type { Log } from '../../lib/log.js'
import type { LoadFailure } from './engine-child.js'

/** Limit of one start, from the fork to the first answer, in ms; it takes 200 to 500. */
const START_LIMIT = 30_000
/** How long a close waits for a clean stop before it kills, in ms; the child itself gives up after 1500. */
const CLOSE_LIMIT = 2000
/** Between restarts. */
const BACKOFF: Backoff = { firstMs: 100, maxMs: 5_000 }
/** Between looks at a folder that another engine owns, in ms. */
const OWNER_PAUSE = 100
/** An engine that ran this long, in ms, starts the backoff anew when it dies. */
const STEADY = 30_000
/** How much of the child's stderr is kept for the error message, in characters. */
const STDERR_KEPT = 4000
/** In the folder of the data. */
const CONFIG_FILE = 'embedded-clickhouse.xml'
/** The user of the HTTP interface. The engine's own session is `default`, always without a password. */
const USER = 'tallyhouse'

// The same extension as this file: tests run the .ts, users the .js.
const CHILD = fileURLToPath(new URL(`./engine-child${extname(import.meta.url)}`, import.meta.url))

export interface EmbeddedClickHouseOptions {
  /** The folder of the engine's data; created if missing. One engine at a time owns it. */
  path: string
  log: Pick<Log, 'info' | 'warn' | 'error'>
  /** The loopback port of the HTTP interface; a free one if not given. */
  port?: number
  /** The password of the HTTP interface, of letters, digits, `-` and `_`; a random one if not given. */
  password?: string
  /**
   * How long to wait, in ms, for another engine to give up the folder. After a `kill -9` of the service its engine ends within
   * milliseconds, yet a new service may be faster. Default 5000.
   */
  ownerWait?: number
}

/** `up`: it answers. `restarting`: it died and comes back by itself; requests fail meanwhile. `closed`: for good. */
export type EmbeddedState = 'up' | 'restarting' | 'closed'

export interface EmbeddedClickHouse {
  /** `http://USER:PASSWORD@127.0.0.1:PORT/analytics`, so not for a log; it stays the same across restarts. */
  readonly url: string
  state(): EmbeddedState
  /** The process of the engine; undefined while there is none. */
  pid(): number | undefined
  /**
   * Stops the engine and waits for the end of its process: 0.1 to 0.7 s, 2 s at worst. All callers share one promise.
   * Close the clients first: a query that still runs is cut off, and a connection that is kept alive makes it take 1.5 s.
   */
  close(): Promise<void>
}

type Failure = 'load' | 'locked' | 'port' | 'other'

/** A start that did not succeed; `failure` tells what can be done about it. */
class StartError extends Error {
  readonly failure: Failure

  constructor(failure: Failure, message: string) {
    super(message)
    this.failure = failure
  }
}

interface Engine {
  process: ChildProcess
  /** Resolves when the process is gone. */
  ended: Promise<StartError>
}

/** What opens the HTTP interface. The engine learns it from its environment, which, unlike its arguments, others cannot read. */
interface Secret {
  password: string
  /** The value of the header, as every client of USER sends it. */
  authorization: string
}

/**
 * Starts a whole ClickHouse in a child process, so that the service needs nothing but Node, and restarts it whenever it dies: after
 * 100 ms, then in doubling steps up to 5 s (each with jitter), without end. Resolves once it answers.
 *
 * A restart uses the same port, so that a client's URL stays valid. If another process has taken the port in the meantime, the engine
 * stays down, each try is logged as a warning, and it comes back when the port is free.
 *
 * Other users of this machine, and pages in its browsers, reach the port too: without the password they get a 403, but for `/ping`.
 *
 * Not promised: an engine that lives but no longer answers is not noticed here, and a process that takes the port while the engine is
 * down is sent the password by whoever takes it for the engine.
 *
 * @throws Error that says what to do, when the engine cannot be loaded here or another one owns the folder (after `ownerWait`)
 */
export async function startEmbeddedClickHouse(options: EmbeddedClickHouseOptions): Promise<EmbeddedClickHouse> {
  const { log, ownerWait = 5000 } = options
  const path = resolve(options.path)
  const config = join(path, CONFIG_FILE)
  await mkdir(path, { recursive: true, mode: 0o700 })
  await writeFile(config, configuration(), { mode: 0o600 })

  const secret = secretOf(options.password ?? randomBytes(32).toString('base64url'))
  const closing = new AbortController()
  let port = options.port ?? (await freePort())
  let state: EmbeddedState = 'up'
  let engine: Engine
  let upSince = 0

  /** Forks, and waits for the first answer; a child that does not come up is gone when this rejects. */
  async function launch(): Promise<void> {
    closing.signal.throwIfAborted()
    engine = forkEngine(path, port, config, secret)
    const failed = await Promise.race([engine.ended, answers(engine, path, port, secret)])
    if (failed === undefined) {
      upSince = performance.now()
      return
    }
    engine.process.kill('SIGKILL')
    await engine.ended
    throw failed
  }

  /** The first start gives up where trying again cannot help; a restart never does. */
  async function firstLaunch(): Promise<void> {
    const giveUpAt = performance.now() + ownerWait
    for (let tries = 1; ; tries++) {
      try {
        return await launch()
      } catch (error) {
        const failure = error instanceof StartError ? error.failure : 'other'
        if (failure === 'port' && options.port === undefined && tries < 5) port = await freePort()
        else if (failure === 'locked' && performance.now() < giveUpAt) await sleep(OWNER_PAUSE)
        else if (failure === 'locked') throw await ownedByAnother(path)
        else throw error
      }
    }
  }

  /**
   * The only place where the state changes:
   *
   *   up → restarting   the process ended by itself
   *   restarting → up   a new process answers
   *   any → closed      close(); nothing leaves it
   */
  function become(next: EmbeddedState, reason: string): void {
    if (state === 'closed') return
    state = next
    switch (next) {
      case 'up':
        log.info({ pid: engine.process.pid, port }, reason)
        break
      case 'restarting':
        log.warn({ reason }, 'embedded ClickHouse ended; it is started again')
        break
      case 'closed':
        log.info(reason)
        break
      default:
        throw new Error(`no such state: ${next satisfies never}`)
    }
  }

  async function supervise(): Promise<void> {
    for (let deaths = 1; ; deaths++) {
      const { message } = await engine.ended
      if (closing.signal.aborted) return
      if (performance.now() - upSince > STEADY) deaths = 1
      become('restarting', message)
      const isUp = await retry(launch, {
        backoff: BACKOFF,
        signal: closing.signal,
        failures: deaths,
        onFailure: (error, next) => log.warn({ err: error, ...next }, 'embedded ClickHouse failed to start, retrying'),
      })
      if (!isUp) return
      become('up', 'embedded ClickHouse is up again')
    }
  }

  async function stop(): Promise<void> {
    become('closed', 'embedded ClickHouse is stopped')
    closing.abort()
    const { process: child, ended } = engine
    if (child.connected) child.send('stop', () => {})
    const limit = setTimeout(() => child.kill('SIGKILL'), CLOSE_LIMIT)
    await ended
    clearTimeout(limit)
    await supervised
  }

  await firstLaunch()
  become('up', 'embedded ClickHouse is up')
  const supervised = supervise()
  let stopped: Promise<void> | undefined

  return {
    url: `http://${USER}:${secret.password}@127.0.0.1:${port}/analytics`,
    state: () => state,
    pid: () => (isAlive(engine.process) ? engine.process.pid : undefined),
    close: () => {
      stopped ??= stop()
      return stopped
    },
  }
}

function secretOf(password: string): Secret {
  return { password, authorization: `Basic ${Buffer.from(`${USER}:${password}`).toString('base64')}` }
}

function isAlive(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null
}

function forkEngine(path: string, port: number, config: string, { password, authorization }: Secret): Engine {
  const child = fork(CHILD, [path, String(port), config], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: { ...process.env, EMBEDDED_CLICKHOUSE_PASSWORD: password, EMBEDDED_CLICKHOUSE_AUTHORIZATION: authorization },
  })
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT)
  })
  let loadFailure: string | undefined
  child.on('message', (message: LoadFailure) => {
    loadFailure = message.loadFailure
  })
  const ended = new Promise<StartError>((done) => {
    child.once('error', (error) => {
      if (!isAlive(child)) done(new StartError('other', `ClickHouse's process could not be started: ${error.message}`))
    })
    child.once('close', (code, signal) => done(whyItEnded(loadFailure, stderr.trim(), path, port, code, signal)))
  })
  return { process: child, ended }
}

/** The engine gives no code but 394 and the like on stderr, so the two cases that can be helped are found by their text. */
function whyItEnded(
  loadFailure: string | undefined,
  stderr: string,
  path: string,
  port: number,
  code: number | null,
  signal: NodeJS.Signals | null,
): StartError {
  if (loadFailure !== undefined) {
    return new StartError(
      'load',
      `The embedded ClickHouse cannot be loaded on ${process.platform}-${process.arch}: ${loadFailure}. ` +
        'Install the optional packages (npm install --include=optional), or set CLICKHOUSE_URL to a ClickHouse server.',
    )
  }
  if (stderr.includes('Another server instance in same directory')) {
    return new StartError('locked', `another ClickHouse owns the folder ${path}`)
  }
  if (stderr.includes('Net Exception: Address already in use')) {
    return new StartError(
      'port',
      `port ${port} of 127.0.0.1, where ClickHouse has to listen, is taken by another process`,
    )
  }
  return new StartError('other', `ClickHouse ended (${signal ?? `exit code ${code}`})${stderr && `: ${stderr}`}`)
}

async function ownedByAnother(path: string): Promise<Error> {
  const status = await readFile(join(path, 'status'), 'utf8').catch(() => '')
  const pid = /^PID: (\d+)/m.exec(status)?.[1]
  return new Error(
    `The folder ${path} is in use by another ClickHouse${pid ? ` (process ${pid})` : ''}. ` +
      'Stop the service that runs it, or set another DATA_DIR.',
  )
}

/** Undefined once this very engine answers (whatever else may listen on the port owns another folder); an error at the limit. */
async function answers(
  { process: child }: Engine,
  path: string,
  port: number,
  { authorization }: Secret,
): Promise<StartError | undefined> {
  const sql = `SELECT value FROM system.server_settings WHERE name = 'path' FORMAT TSVRaw`
  const ask = async (target: string, headers = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}${target}`, {
      headers: { ...headers, connection: 'close' }, // one that is kept alive would hold up a clean stop
      signal: AbortSignal.timeout(2000),
    })
    return response.ok ? (await response.text()).trimEnd() : ''
  }
  const giveUpAt = performance.now() + START_LIMIT
  while (performance.now() < giveUpAt && isAlive(child)) {
    const owner = await ask('/ping')
      .then(() => ask(`/?query=${encodeURIComponent(sql)}`, { authorization }))
      .catch(() => '') // not listening yet
    if (owner !== '' && resolve(owner) === path && isAlive(child)) return undefined
    await sleep(20)
  }
  return new StartError('other', `ClickHouse did not answer on port ${port} within ${START_LIMIT / 1000} s`)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  await new Promise((done) => server.close(done))
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  return address.port
}

/**
 * What is set differs from the engine's own defaults for a library, or from those of a big server. The `system.*_log` tables exist only
 * where a configuration names them, so none fills the disk.
 *
 * The engine's own session logs in as `default` without a password, from 127.0.0.1, whatever is set: neither a password nor a network
 * can keep HTTP clients from being `default`. So the rules of HTTP let nobody in who has not the whole header of USER, and `default` may
 * do no more than the child's query needs. An empty header in a rule would match a request that has none.
 */
function configuration(): string {
  // As a library it would merge with 2 threads. Half of the slots (2 per thread) stay reserved for small merges.
  const threads = Math.min(8, Math.max(2, availableParallelism()))
  return `<clickhouse>
  <!-- longer than a client keeps an idle socket, in seconds -->
  <keep_alive_timeout>75</keep_alive_timeout>
  <!-- the machine is shared with the service, and often with more -->
  <max_server_memory_usage_to_ram_ratio>0.6</max_server_memory_usage_to_ram_ratio>
  <mark_cache_size>268435456</mark_cache_size>
  <index_mark_cache_size>67108864</index_mark_cache_size>
  <primary_index_cache_size>268435456</primary_index_cache_size>
  <background_pool_size>${threads}</background_pool_size>
  <background_merges_mutations_concurrency_ratio>2</background_merges_mutations_concurrency_ratio>
  <!--
    A merge holds a core for some 50 ms, during which single events on 2 cores are late; so merges give way. How much that gains is
    unsure: of nine comparisons of the slowest 1 % five were for it, two against, two undecided. Batches go as fast. It needs
    CAP_SYS_NICE, which root has; else nothing happens. Not for INSERTs as well: after 20 s of full load the last event was then
    visible 5 to 9 s after the end instead of 1.
  -->
  <os_threads_nice_value_merge_mutate>5</os_threads_nice_value_merge_mutate>
  <background_schedule_pool_size>${threads}</background_schedule_pool_size>
  <merge_tree>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>${threads}</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>${threads}</number_of_free_entries_in_pool_to_execute_mutation>
  </merge_tree>
  <http_handlers>
    <rule>
      <url>/ping</url>
      <handler><type>ping</type></handler>
    </rule>
    <rule>
      <headers><authorization from_env="EMBEDDED_CLICKHOUSE_AUTHORIZATION"/></headers>
      <handler><type>dynamic_query_handler</type></handler>
    </rule>
    <rule>
      <handler>
        <type>static</type>
        <status>403</status>
        <response_content>The user or the password is wrong.\n</response_content>
      </handler>
    </rule>
  </http_handlers>
  <!-- this file; without it the users below are not read -->
  <users_config>${CONFIG_FILE}</users_config>
  <users>
    <default>
      <password/>
      <grants>
        <query>GRANT CREATE DATABASE, CREATE TEMPORARY TABLE, SYSTEM LISTEN ON *.*</query>
        <query>GRANT TABLE ENGINE ON Atomic</query>
        <query>GRANT SELECT ON system.numbers</query>
      </grants>
    </default>
    <${USER}>
      <password from_env="EMBEDDED_CLICKHOUSE_PASSWORD"/>
      <grants>
        <query>GRANT ALL ON *.*</query>
        <!-- no table functions that read files or other servers -->
        <query>REVOKE SOURCES ON *.*</query>
      </grants>
    </${USER}>
  </users>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
</clickhouse>
`
}
