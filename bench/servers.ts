import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type EmbeddedClickHouse, startEmbeddedClickHouse } from '../src/clickhouse/embedded/engine.js'
import { freePort } from '../src/lib/free-port.js'
import { startNode } from './node.js'

/** The root of the repository, seen from `bench/dist/bench/`. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** The command line. */
export const CLI = join(ROOT, 'dist/cli.js')
/** Not in the system's folder for temporary files, which may be in memory, where a write to disk costs nothing. */
const DATA = join(ROOT, 'bench/data')

const START_LIMIT_MS = 60_000
/** The service itself gives up its clean end after 4.5 s. */
const STOP_LIMIT_MS = 6_000
const KEPT_OUTPUT = 4_000

export const SECRET_KEY = 'sk_bench_secret_key'

export interface Running {
  url: string
  process: ChildProcess
}

export interface ServersOptions {
  journal: 'redis' | 'lmdb'
  /** settings for Tallyhouse, in addition to those that it needs */
  settings: Record<string, string>
  /** whether Tallyhouse writes a profile of its CPU into bench/data */
  cpuProfile: boolean
}

/** A process that was started here, with the end of what it said. */
interface Child {
  name: string
  process: ChildProcess
  output: string
}

/**
 * Everything that a benchmark starts. Each process is ended by its handle, in the reverse order of the starts, whether
 * the benchmark came to its end or not.
 */
export class Servers {
  readonly folder: string
  readonly #options: ServersOptions
  readonly #closers: (() => Promise<unknown>)[] = []
  readonly #children: Child[]
  #closed: Promise<void> | undefined

  private constructor(folder: string, options: ServersOptions, children: Child[] = []) {
    this.folder = folder
    this.#options = options
    this.#children = children
    this.#closers.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  }

  static async open(options: ServersOptions): Promise<Servers> {
    await mkdir(DATA, { recursive: true })
    return new Servers(await mkdtemp(join(DATA, 'run-')), options)
  }

  /** For some that can be closed before the others are; with the others, at the latest. */
  async inner(): Promise<Servers> {
    const inner = new Servers(await mkdtemp(join(this.folder, 'inner-')), this.#options, this.#children)
    this.onClose(() => inner.close())
    return inner
  }

  /** @param close called once everything that is started later has ended */
  onClose(close: () => Promise<unknown>): void {
    this.#closers.push(close)
  }

  /** What it answers survives its crash, and a power cut takes its last second at most. */
  async redis(): Promise<Running> {
    const dir = await mkdtemp(join(this.folder, 'redis-'))
    const port = String(await freePort())
    const options = ['--port', port, '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--loglevel', 'warning']
    const durable = ['--appendonly', 'yes', '--appendfsync', 'everysec']
    const child = this.spawn('redis-server', 'redis-server', [...options, ...durable])
    await until(child, () => isListening(Number(port)))
    return { url: `redis://127.0.0.1:${port}`, process: child.process }
  }

  /** @returns the URL of a ClickHouse that is reached over HTTP, as a server is */
  async clickhouse(): Promise<string> {
    const path = await mkdtemp(join(this.folder, 'clickhouse-'))
    const log = { info() {}, warn: console.error, error: console.error }
    const engine = await startEmbeddedClickHouse({ path, log })
    this.onClose(() => engine.close())
    return engine.url
  }

  /** A ClickHouse that can be a shard: others of this kind read from it. */
  async node(): Promise<EmbeddedClickHouse> {
    const node = await startNode(await mkdtemp(join(this.folder, 'clickhouse-')))
    this.onClose(() => node.close())
    return node
  }

  /**
   * The service as `npm start` runs it.
   * @param journal settings that name it; default: one of its own
   */
  async tallyhouse(clickhouseUrl: string, journal?: Record<string, string>): Promise<Running> {
    return await this.#service({ ...(journal ?? (await this.#ownJournal())), CLICKHOUSE_URL: clickhouseUrl })
  }

  /** The service with an embedded journal and ClickHouse, as `npm start` runs it without settings. */
  async embedded(dataDir: string): Promise<Running> {
    return await this.#service({ DATA_DIR: dataDir })
  }

  async #service(parts: Record<string, string>): Promise<Running> {
    if (!existsSync(CLI)) throw new Error(`${CLI} is missing; run npm run build`)
    const profile = this.#options.cpuProfile ? ['--cpu-prof', `--cpu-prof-dir=${DATA}`] : []
    const child = this.spawn('Tallyhouse', process.execPath, [...(await v8Flags()), ...profile, CLI, 'serve'], {
      // Benchmarks put events into the store by themselves, which facts do not hear of.
      FACTS: 'off',
      ...parts,
      SECRET_KEY,
      PORT: '0',
      LOG_LEVEL: 'warn',
      ...this.#options.settings,
    })
    const [, url = ''] = await said(child, /Tallyhouse serves at (\S+)/)
    return { url, process: child.process }
  }

  async #ownJournal(): Promise<Record<string, string>> {
    if (this.#options.journal === 'redis') return { REDIS_URL: (await this.redis()).url }
    return await this.embeddedJournal()
  }

  /** Settings for a journal of its own in the service itself. */
  async embeddedJournal(): Promise<Record<string, string>> {
    return { DATA_DIR: await mkdtemp(join(this.folder, 'journal-')) }
  }

  /** A server of `bench/programs/`; it says where it listens. */
  async program(name: string, env: Record<string, string> = {}): Promise<Running> {
    const child = this.spawn(name, process.execPath, [programFile(name)], env)
    const [, url = ''] = await said(child, /serves at (\S+)/)
    return { url, process: child.process }
  }

  /** Runs a command to its end. @returns what it wrote to stdout */
  async run(name: string, command: string, args: string[]): Promise<string> {
    const child = this.spawn(name, command, args)
    let stdout = ''
    child.process.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    const [code, signal] = await once(child.process, 'close')
    this.#children.splice(this.#children.indexOf(child), 1)
    if (code !== 0) throw new Error(`${name} ended with ${signal ?? code}: ${child.output}`)
    return stdout
  }

  spawn(name: string, command: string, args: string[], env: Record<string, string> = {}): Child {
    if (this.#closed) throw new Error('the benchmark is being ended')
    const child: Child = {
      name,
      process: spawn(command, args, {
        env: { PATH: process.env.PATH ?? '', ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
      output: '',
    }
    for (const stream of [child.process.stdout, child.process.stderr]) {
      stream?.on('data', (chunk) => {
        child.output = (child.output + chunk).slice(-KEPT_OUTPUT)
      })
    }
    child.process.on('error', (error) => {
      child.output += error.message
    })
    this.#children.push(child)
    this.#closers.push(() => end(child.process))
    return child
  }

  /** What the processes said last, for the message of a failure. */
  output(): string {
    return this.#children
      .filter(({ output }) => output !== '')
      .map(({ name, output }) => `--- ${name}\n${output.trimEnd()}`)
      .join('\n')
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    for (const close of this.#closers.reverse()) {
      await close().catch((error) => console.error(error))
    }
  }
}

/** The flags in the first line of the command, with which it starts itself. */
async function v8Flags(): Promise<string[]> {
  const [first = ''] = (await readFile(CLI, 'utf8')).split('\n', 1)
  return first.split(' ').filter((word) => word.startsWith('--'))
}

export function programFile(name: string): string {
  return fileURLToPath(new URL(`./programs/${name}.js`, import.meta.url))
}

/** The largest resident memory that a process has had, in MiB; null if the system does not tell. */
export async function peakMemory({ pid }: ChildProcess): Promise<number | null> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]
  return kib === undefined ? null : Number(kib) / 1024
}

export async function said(child: Child, pattern: RegExp): Promise<RegExpExecArray> {
  const found = await until(child, async () => pattern.exec(child.output))
  // What comes after its greeting is what went wrong.
  child.output = ''
  return found
}

async function until<Value>(child: Child, condition: () => Promise<Value | false | null>): Promise<Value> {
  const deadline = Date.now() + START_LIMIT_MS
  for (;;) {
    const value = await condition()
    if (value) return value
    if (hasEnded(child.process)) throw new Error(`${child.name} ended at its start: ${child.output}`)
    if (Date.now() > deadline) throw new Error(`${child.name} did not start: ${child.output}`)
    await wait(10)
  }
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port })
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

function hasEnded({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid === undefined || exitCode !== null || signalCode !== null
}

async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const limit = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
  await ended
  clearTimeout(limit)
}
