import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Backoff, retry } from '../../lib/backoff.js'
import { withPath } from '../../lib/failure-text.js'
import { freePort } from '../../lib/free-port.js'
import type { Log } from '../../lib/log.js'
import { makeFolder } from '../../lib/make-folder.js'
import { buildConfiguration, CONFIG_FILE, USER } from './engine-config.js'
import {
  createSecret,
  type EngineAddress,
  type EngineProcess,
  forkEngine,
  isAlive,
  StartError,
  toOwnedError,
  waitUntilUp,
} from './engine-process.js'

/** How long close() waits for a clean stop before it kills, in ms; the child itself gives up after 1500. */
const CLOSE_LIMIT = 2000
/** Pauses between restarts. */
const BACKOFF: Backoff = { firstMs: 100, maxMs: 5_000 }
/** After an engine ran for this long, in ms, the backoff restarts with the first pause. */
const STEADY = 30_000
/** Pause between attempts on a folder that another engine owns, in ms. */
const OWNER_PAUSE = 100
/** Free ports that the first start tries: another process may take one before the engine listens on it. */
const MAX_PORTS = 5

export interface EmbeddedClickHouseOptions {
  /** The folder of the engine's data; created if missing. One engine at a time owns it. */
  path: string
  log: Pick<Log, 'info' | 'warn' | 'error'>
  /** The folder that relative paths of `file()` start from; by default, `path`. */
  files?: string
  /** The loopback port of the HTTP interface; by default, a free one. */
  port?: number
  /** The password of the HTTP interface, of letters, digits, `-` and `_`; by default, a random one. */
  password?: string
  /**
   * How long to wait for another engine to release the folder, in ms (default 5000). After a `kill -9` of the service
   * its engine exits within milliseconds, but a new service may start even faster.
   */
  ownerWait?: number
}

/** `up`: it responds. `restarting`: it exited and is being restarted, and requests fail. `closed`: for good. */
export type EmbeddedState = 'up' | 'restarting' | 'closed'

export interface EmbeddedClickHouse {
  /** `http://USER:PASSWORD@127.0.0.1:PORT/analytics`, so never log it; it stays the same across restarts. */
  readonly url: string
  state(): EmbeddedState
  /** The process id of the engine; undefined while there is no process. */
  pid(): number | undefined
  /**
   * Stops the engine and waits for its process to exit: 0.1 to 0.7 s, at most 2 s. All callers share one promise. Close
   * the clients first: a running query is aborted, and a kept-alive connection makes the stop take 1.5 s.
   */
  close(): Promise<void>
}

/**
 * Starts a ClickHouse in a child process, so that the service needs nothing but Node. If it exits, it is restarted:
 * after 100 ms, then with pauses that double up to 5 s, without limit. Resolves once it responds.
 *
 * A restart uses the same port, so that a client's URL stays valid. If another process has taken the port, the engine
 * stays down, each attempt is logged as a warning, and it comes back when the port is free.
 *
 * Other users of this machine, and pages in its browsers, can reach the port too. Without the password they get a 403,
 * for everything but `/ping`.
 *
 * Not promised: an engine that runs but no longer responds is not noticed here, and a process that takes the port while
 * the engine is down receives the password from clients that take it for the engine.
 *
 * @throws Error that says what to do, if the engine cannot be loaded or another one owns the folder (after `ownerWait`)
 */
export async function startEmbeddedClickHouse(options: EmbeddedClickHouseOptions): Promise<EmbeddedClickHouse> {
  const path = resolve(options.path)
  // ClickHouse exits silently if the path contains a backslash.
  if (path.includes('\\'))
    throw new Error(`ClickHouse cannot use ${path}, because it has a backslash. Set another DATA_DIR.`)
  const configFile = join(path, CONFIG_FILE)
  await makeFolder(path, 0o700)
  await writeFile(configFile, buildConfiguration({ readsFiles: options.files !== undefined }), { mode: 0o600 }).catch(
    withPath(path),
  )
  const address = {
    path,
    configFile,
    files: options.files,
    port: options.port ?? (await freePort()),
    secret: createSecret(options.password ?? randomBytes(32).toString('base64url')),
  }
  const engine = await launchFirst(address, options)
  return new SupervisedEngine(engine, address, options.log)
}

/**
 * Unlike a restart, the first start fails if a retry cannot help.
 * @param address its port is replaced if another process has taken it
 */
async function launchFirst(
  address: EngineAddress,
  { port, ownerWait = 5000 }: EmbeddedClickHouseOptions,
): Promise<EngineProcess> {
  const giveUpAt = performance.now() + ownerWait
  for (let attempts = 1; ; attempts++) {
    try {
      const engine = forkEngine(address)
      await waitUntilUp(engine, address)
      return engine
    } catch (error) {
      const failure = error instanceof StartError ? error.failure : 'other'
      if (failure === 'port' && port === undefined && attempts < MAX_PORTS) address.port = await freePort()
      else if (failure === 'locked' && performance.now() < giveUpAt) await sleep(OWNER_PAUSE)
      else if (failure === 'locked') throw await toOwnedError(address.path)
      else throw error
    }
  }
}

class SupervisedEngine implements EmbeddedClickHouse {
  readonly url: string
  readonly #address: EngineAddress
  readonly #log: EmbeddedClickHouseOptions['log']
  readonly #closing = new AbortController()
  readonly #supervised: Promise<void>
  #engine: EngineProcess
  #upSince = performance.now()
  #state: EmbeddedState = 'up'
  #stopped: Promise<void> | null = null

  constructor(engine: EngineProcess, address: EngineAddress, log: EmbeddedClickHouseOptions['log']) {
    this.url = `http://${USER}:${address.secret.password}@127.0.0.1:${address.port}/analytics`
    this.#engine = engine
    this.#address = address
    this.#log = log
    this.#become('up', 'embedded ClickHouse is up')
    this.#supervised = this.#supervise()
  }

  /** An arrow function, so that it can be passed as a callback. */
  readonly close = (): Promise<void> => {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  state(): EmbeddedState {
    return this.#state
  }

  pid(): number | undefined {
    const { process } = this.#engine
    return isAlive(process) ? process.pid : undefined
  }

  /**
   * The only place where the state changes:
   *
   *   up → restarting   the process exited by itself
   *   restarting → up   a new process responds
   *   any → closed      close(); nothing leaves it
   */
  #become(next: EmbeddedState, reason: string): void {
    if (this.#state === 'closed') return
    this.#state = next
    switch (next) {
      case 'up':
        this.#log.info({ enginePid: this.#engine.process.pid, port: this.#address.port }, reason)
        break
      case 'restarting':
        this.#log.warn({ reason }, 'embedded ClickHouse exited, restarting it')
        break
      case 'closed':
        this.#log.info(reason)
        break
      default:
        throw new Error(`no such state: ${next satisfies never}`)
    }
  }

  async #supervise(): Promise<void> {
    for (let exits = 1; ; exits++) {
      const { message } = await this.#engine.ended
      if (this.#closing.signal.aborted) return
      if (performance.now() - this.#upSince > STEADY) exits = 1
      this.#become('restarting', message)
      const isUp = await retry(() => this.#restart(), {
        backoff: BACKOFF,
        signal: this.#closing.signal,
        failures: exits,
        onFailure: (error, next) =>
          this.#log.warn({ err: error, ...next }, 'embedded ClickHouse failed to start, retrying'),
      })
      if (!isUp) return
      this.#become('up', 'embedded ClickHouse is up again')
    }
  }

  async #restart(): Promise<void> {
    // Set before the engine is up, so that `close` can stop it during the start.
    this.#engine = forkEngine(this.#address)
    await waitUntilUp(this.#engine, this.#address)
    this.#upSince = performance.now()
  }

  async #stop(): Promise<void> {
    this.#become('closed', 'embedded ClickHouse is stopped')
    this.#closing.abort()
    const { process, ended } = this.#engine
    if (process.connected) process.send('stop', () => {})
    const limit = setTimeout(() => process.kill('SIGKILL'), CLOSE_LIMIT)
    await ended
    clearTimeout(limit)
    await this.#supervised
  }
}
