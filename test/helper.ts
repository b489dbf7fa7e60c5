import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import { type AppOptions, buildApp } from '../src/app.js'
import { startEmbeddedClickHouse } from '../src/clickhouse/embedded/engine.js'
import { type Config, loadConfig } from '../src/config.js'
import { freePort } from '../src/lib/free-port.js'
import { copyEmptyStore } from './empty-store.js'

export { freePort }

export const PUBLIC_KEY = 'pk_test_public_key'
export const SECRET_KEY = 'sk_test_secret_key'

/** The sender for the secret key of a project. */
export const fromServer = (projectId: string) => ({ projectId, keyClass: 'secret' as const })

export const silent = { info() {}, warn() {}, error() {} }

/** For deletions without anybody who has to learn of them. */
export const unnoted = async (): Promise<void> => undefined

/** Limit of a wait for a condition: long enough for a slow machine. */
export const WAIT_LIMIT_MS = 90_000
/** Shortest pause between two checks of a condition. */
const MIN_PAUSE_MS = 5
const MAX_PAUSE_MS = 100
/**
 * The folder with the service and the commands, relative to the root of the repository, where everything runs. The code
 * that is compiled for the tests takes half the CPU time to start; the fault tests use the build for users.
 */
const PROGRAMS = join(process.cwd(), process.env.TEST_PROGRAMS ?? 'dist')
const MAIN = join(PROGRAMS, 'main.js')
export const CLI = join(PROGRAMS, 'cli.js')

/** The owner of started resources, which are closed at its end: a test, or another program. */
export interface Scope {
  teardown(close: () => unknown): unknown
}

/** A folder that is removed after the test. */
export async function temporaryFolder(t: Scope): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tallyhouse-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  return folder
}

/** A data folder like that of a service that was started once and received nothing. */
export async function dataFolder(t: Scope): Promise<string> {
  const folder = await temporaryFolder(t)
  await copyEmptyStore(join(folder, 'clickhouse'))
  return folder
}

/**
 * Waits for a condition; fails the test with `what` if it does not become true in time. The pauses grow, because most
 * conditions ask the service, which takes CPU time from the work that is awaited.
 */
export async function until<T>(
  what: string,
  condition: () => Promise<T | undefined | false> | T | undefined | false,
  limitMs = WAIT_LIMIT_MS,
) {
  const began = performance.now()
  for (;;) {
    const value = await condition()
    if (value) return value
    const waitedMs = performance.now() - began
    if (waitedMs > limitMs) throw new Error(`timed out after ${limitMs} ms waiting for ${what}`)
    await wait(Math.min(Math.max(waitedMs / 4, MIN_PAUSE_MS), MAX_PAUSE_MS))
  }
}

export interface RedisServer {
  url: string
  process: ChildProcess
  /** kills it, but keeps its data */
  kill(): Promise<void>
  /** restarts it on the same port, with its data */
  restart(): Promise<void>
}

/** Valkey is used if only that is installed. */
const REDIS_SERVER = spawnSync('redis-server', ['--version']).status === 0 ? 'redis-server' : 'valkey-server'

/** A command under the limits that the shell sets, such as `ulimit -f 8000`. */
function limited(limits: string, command: string, args: string[]): [command: string, args: string[]] {
  return limits ? ['bash', ['-c', `${limits}; exec "$0" "$@"`, command, ...args]] : [command, args]
}

/**
 * A real Redis with its own folder, which writes to disk before it acknowledges. @param limits for the shell to set,
 * until a restart @param env further environment variables, also after a restart
 */
export async function startRedis(
  t: Scope,
  args: string[] = [],
  limits = '',
  env: Record<string, string> = {},
): Promise<RedisServer> {
  const dir = await temporaryFolder(t)
  let port = await freePort()
  const options = ['--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'yes']
  const start = async (limits: string): Promise<ChildProcess> => {
    const all = ['--port', String(port), ...options, '--appendfsync', 'always', ...args]
    const child = spawn(...limited(limits, REDIS_SERVER, all), { stdio: 'pipe', env: { ...process.env, ...env } })
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    await until('Redis', () => output.includes('Ready to accept connections') || child.exitCode !== null)
    if (child.exitCode !== null) throw new Error(`Redis ended: ${output}`)
    return child
  }
  /** Another test may take the free port in between. */
  const startFirst = () =>
    start(limits).catch(async (error: Error) => {
      if (!error.message.includes('Address already in use')) throw error
      port = await freePort()
      return await start(limits)
    })
  const first = await startFirst()
  const kill = async () => {
    if (server.process.exitCode !== null || server.process.signalCode !== null) return
    server.process.kill('SIGKILL')
    await once(server.process, 'exit')
  }
  const server: RedisServer = {
    url: `redis://127.0.0.1:${port}`,
    process: first,
    kill,
    restart: async () => {
      server.process = await start('')
    },
  }
  t.teardown(kill)
  return server
}

/**
 * A ClickHouse that is reached over HTTP like a server; the service under test does not know that it is embedded.
 * @param path of its data; default: a new folder with an empty store
 */
export async function startClickHouse(t: Scope, path?: string) {
  const folder = path ?? (await temporaryFolder(t))
  if (path === undefined) await copyEmptyStore(folder)
  const engine = await startEmbeddedClickHouse({ path: folder, log: silent })
  t.teardown(() => engine.close())
  return engine
}

/** The two kinds of storage; every promise holds on both. */
export const STORAGES = ['embedded', 'servers'] as const
/** One of them, for tests of code that runs before a request reaches storage. */
export const ANY_STORAGE = [STORAGES[0]] as const
/** The layout with the most parts, for behaviour that all layouts share. */
export const LANES = ['lanes'] as const
/** With three journals, `lanes` is like `servers`, and `embedded lanes` like `embedded`. */
export type Storage = (typeof STORAGES)[number] | (typeof LANES)[number] | 'embedded lanes'

/** The settings for a kind of storage: LMDB and the embedded engine, or Redis and ClickHouse over HTTP. */
export async function settingsFor(t: Test, storage: Storage): Promise<NodeJS.ProcessEnv> {
  const common = { PUBLIC_API_KEY: PUBLIC_KEY, SECRET_KEY, LOG_LEVEL: 'silent', PORT: '0' }
  const lanes = storage.endsWith('lanes') && { LANES: '3' }
  if (storage.startsWith('embedded')) return { ...common, DATA_DIR: await dataFolder(t), ...lanes }
  const [redis, clickhouse] = await Promise.all([startRedis(t), startClickHouse(t)])
  return { ...common, REDIS_URL: redis.url, CLICKHOUSE_URL: clickhouse.url, ...lanes }
}

export interface Client {
  app: FastifyInstance
  config: Config
  /** a call with the secret key in the header */
  call(method: InjectOptions['method'], url: string, body?: unknown, headers?: object): Promise<LightMyRequestResponse>
  /** a call with the public key in the body */
  browser(url: string, body: object): Promise<LightMyRequestResponse>
  /** reads all events in pages of `limit` */
  events(limit?: number, query?: string): Promise<StoredEvent[]>
}

export interface StoredEvent {
  eventId: string
  event: string
  distinct_id: string
  properties: Record<string, unknown>
  timestamp: number
  insert_id?: string
  session_id?: string
  context?: object
}

/** The whole service in this process, called without a socket. Purges start immediately, and answers wait for their warnings. Every
 * project has facts. */
export async function startApp(t: Test, env: NodeJS.ProcessEnv, options: AppOptions = {}): Promise<Client> {
  const config = loadConfig({ FACTS: 'all', ...env })
  const app = await buildApp(config, { purgePace: { pauseMs: 0, pauseFactor: 0 }, reviewMs: WAIT_LIMIT_MS, ...options })
  t.teardown(() => app.close())
  return clientOf(app, config, { public: PUBLIC_KEY, secret: SECRET_KEY })
}

/** The calls of the project with these keys. */
export function clientOf(app: FastifyInstance, config: Config, keys: { public: string; secret: string }): Client {
  const call: Client['call'] = (method, url, body, headers = {}) =>
    app.inject({
      method: method ?? 'GET',
      url,
      headers: {
        'x-api-key': keys.secret,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && {
        payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
      }),
    })
  return {
    app,
    config,
    call,
    browser: (url, body) =>
      app.inject({ method: 'POST', url, headers: { 'user-agent': 'node' }, payload: { apiKey: keys.public, ...body } }),
    events: async (limit = 1000, query = '') => {
      const all: StoredEvent[] = []
      for (let page = 1; ; page++) {
        const response = await call('GET', `/public/events?limit=${limit}&page=${page}${query}`)
        const { events, hasMore } = response.json()
        all.push(...events)
        if (!hasMore) return all
      }
    },
  }
}

export interface Service {
  url: string
  process: ChildProcess
  output(): string
  /** resolves with the exit code or the signal */
  ended: Promise<number | string>
}

/**
 * The service as users run it: its own process, with a socket.
 * @param limits for the shell to set @param command how it is started; the code compiled for the tests starts sooner,
 *   but without the V8 flags of `cli.js`
 */
export async function startService(
  t: Scope,
  env: NodeJS.ProcessEnv,
  limits = '',
  [command, ...args]: readonly [string, ...string[]] = [process.execPath, MAIN],
): Promise<Service> {
  const child = spawn(...limited(limits, command, args), {
    env: { PATH: process.env.PATH, LOG_LEVEL: 'warn', PORT: '0', FACTS: 'all', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk
    })
  }
  const ended = once(child, 'exit').then(([code, signal]) => code ?? signal)
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const url = await until('the service to listen', () => {
    if (child.exitCode !== null) throw new Error(`the service ended: ${output}`)
    return /(?:Tallyhouse serves at|health and metrics:) (http:\/\/[^/\s]+)/.exec(output)?.[1]
  })
  return { url, process: child, output: () => output, ended }
}

/** The real events of the data set, one JSON text each. */
export async function realEvents(): Promise<string[]> {
  const file = fileURLToPath(new URL('data/npm-releases.ndjson', import.meta.url))
  return (await readFile(file, 'utf8')).trimEnd().split('\n')
}

export function randomName(prefix: string): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`
}
