import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { extname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describeDenied } from '../../lib/failure-text.js'
import type { LoadFailure } from './engine-child.js'
import { USER } from './engine-config.js'

/** Limit of one start, from the fork to the first response, in ms; it takes 200 to 500. */
const START_LIMIT = 30_000
/** Poll interval while the engine starts, in ms. */
const POLL_MS = 20
/** Maximum characters of the child's stderr in the error message. */
const STDERR_KEPT = 4000

// The same extension as this file: tests run the .ts, users the .js.
const CHILD = fileURLToPath(new URL(`./engine-child${extname(import.meta.url)}`, import.meta.url))

type Failure = 'load' | 'locked' | 'port' | 'other'

/** A start failed, or a process exited; `failure` says what can be done about it. */
export class StartError extends Error {
  readonly failure: Failure

  constructor(failure: Failure, message: string) {
    super(message)
    this.failure = failure
  }
}

/** Where an engine runs. */
export interface EngineAddress {
  /** the folder of its data */
  path: string
  configFile: string
  /** the folder that relative paths of `file()` start from; default: `path` */
  files?: string | undefined
  /** port of the HTTP interface on 127.0.0.1 */
  port: number
  secret: Secret
}

/** Credentials of the HTTP interface. The engine gets them in its environment, which other users cannot read. */
export interface Secret {
  password: string
  /** value of the authorization header of USER */
  authorization: string
}

export function createSecret(password: string): Secret {
  return { password, authorization: `Basic ${Buffer.from(`${USER}:${password}`).toString('base64')}` }
}

export interface EngineProcess {
  process: ChildProcess
  /** Resolves when the process is gone, with the reason. */
  ended: Promise<StartError>
}

/**
 * Waits until an engine that was just forked responds.
 * @throws StartError if it does not; then its process is gone
 */
export async function waitUntilUp(engine: EngineProcess, address: EngineAddress): Promise<void> {
  const failed = await Promise.race([engine.ended, waitForResponse(engine, address)])
  if (failed === undefined) return
  engine.process.kill('SIGKILL')
  await engine.ended
  throw failed
}

export function isAlive(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null
}

/** Starts an engine's process, which does not respond yet. */
export function forkEngine({ path, configFile, files = path, port, secret }: EngineAddress): EngineProcess {
  const { password, authorization } = secret
  const child = fork(CHILD, [path, String(port), configFile, files], {
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
    child.once('close', (code, signal) => {
      done(
        loadFailure === undefined
          ? toExitError(stderr.trim(), path, port, signal ?? `exit code ${code}`)
          : toLoadError(loadFailure),
      )
    })
  })
  return { process: child, ended }
}

function toLoadError(reason: string): StartError {
  return new StartError(
    'load',
    `The embedded ClickHouse cannot be loaded on ${process.platform}-${process.arch}: ${reason}. ` +
      'Install the optional packages (npm install --include=optional), or set CLICKHOUSE_URL to a ClickHouse server.',
  )
}

/** The engine always exits with the same code, so only stderr identifies what the caller, or an operator, can solve. */
function toExitError(stderr: string, path: string, port: number, exit: string): StartError {
  if (stderr.includes('Another server instance in same directory')) {
    return new StartError('locked', `another ClickHouse owns the folder ${path}`)
  }
  if (stderr.includes('Net Exception: Address already in use')) {
    return new StartError('port', `port ${port} of 127.0.0.1, which ClickHouse must listen on, is in use`)
  }
  const denied = /Permission denied \["([^"]+)"\]/.exec(stderr)?.[1]
  if (denied !== undefined) return new StartError('other', describeDenied(denied))
  return new StartError('other', `ClickHouse exited (${exit})${stderr && `: ${stderr}`}`)
}

/** The error for a folder that another engine owns and does not release. */
export async function toOwnedError(path: string): Promise<Error> {
  const status = await readFile(join(path, 'status'), 'utf8').catch(() => '')
  const pid = /^PID: (\d+)/m.exec(status)?.[1]
  return new Error(
    `The folder ${path} is in use by another ClickHouse${pid ? ` (process ${pid})` : ''}. ` +
      'Stop the service that runs it, or set another DATA_DIR.',
  )
}

/**
 * Returns undefined once this very engine responds, and an error at the limit. Another engine that listens on the port
 * owns another folder, so the folder is compared.
 */
async function waitForResponse(
  { process: child }: EngineProcess,
  { path, port, secret: { authorization } }: EngineAddress,
): Promise<StartError | undefined> {
  const sql = `SELECT value FROM system.server_settings WHERE name = 'path' FORMAT TSVRaw`
  // Do not use `fetch`: its first call compiles for 0.15 s, on the cores that the engine needs for its start.
  const get = async (target: string, headers = {}) => {
    const call = request(`http://127.0.0.1:${port}${target}`, {
      headers: { ...headers, connection: 'close' }, // a kept-alive connection would delay a clean stop
      signal: AbortSignal.timeout(2000),
    })
    call.on('error', () => {}) // `once` no longer listens when the body is aborted
    call.end()
    const [response] = (await once(call, 'response')) as [IncomingMessage]
    const body = await text(response)
    return response.statusCode === 200 ? body.trimEnd() : ''
  }
  const giveUpAt = performance.now() + START_LIMIT
  while (performance.now() < giveUpAt && isAlive(child)) {
    const owner = await get('/ping')
      .then(() => get(`/?query=${encodeURIComponent(sql)}`, { authorization }))
      .catch(() => '') // not listening yet
    if (owner !== '' && resolve(owner) === path && isAlive(child)) return undefined
    await sleep(POLL_MS)
  }
  return new StartError('other', `ClickHouse did not respond on port ${port} within ${START_LIMIT / 1000} s`)
}
