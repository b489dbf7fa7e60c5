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

/** The root of the repository, relative to `bench/dist/bench/`. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
/** The command line. */
export const CLI = join(ROOT, 'dist/cli.js')
/** Not in the system's temporary folder, which may be in memory, where fsync costs nothing. */
const DATA = join(ROOT, 'bench/data')

const START_LIMIT_MS = 60_000
/** The service itself gives up a clean shutdown after 4.5 s. */
const STOP_LIMIT_MS = 6_000
const KEPT_OUTPUT = 4_000

export const SECRET_KEY = 'sk_bench_secret_key'

export interface Running {
  url: string
  process: ChildProcess
}

export interface ServersOptions {
  journal: 'redis' | 'lmdb'
  /** settings of Tallyhouse in addition to the necessary ones */
  settings: Record<string, string>
  /** whether Tallyhouse writes a profile of its CPU into bench/data */
  cpuProfile: boolean
}

/** A process that was started here, with the end of its output. */
interface Child {
  name: string
  process: ChildProcess
  output: string
}

/**
 * Everything that a benchmark starts. The processes are ended by their handles, in reverse order, even if the benchmark
 * fails.
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

  /** Servers that can be closed before the others; they are closed with the others at the latest. */
  async inner(): Promise<Servers> {
    const inner = new Servers(await mkdtemp(join(this.folder, 'inner-')), this.#options, this.#children)
    this.onClose(() => inner.close())
    return inner
  }

  /** @param close called once everything that was started later has ended */
  onClose(close: () => Promise<unknown>): void {
    this.#closers.push(close)
  }

  /** Acknowledged writes survive a crash of the process; a power failure loses the last second at most. */
  async redis(): Promise<Running> {
    const dir = await mkdtemp(join(this.folder, 'redis-'))
    const port = String(await freePort())
    const options = ['--port', port, '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--loglevel', 'warning']
    const durable = ['--appendonly', 'yes', '--appendfsync', 'everysec']
    const child = this.spawn('redis-server', 'redis-server', [...options, ...durable])
    await until(child, () => isListening(Number(port)))
    return { url: `redis://127.0.0.1:${port}`, process: child.process }
  }

  /** @returns the URL of a ClickHouse that is reached over HTTP, like a server */
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
   * @param journal settings that select it; default: a new one
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
      // Benchmarks write events directly into the store, which facts do not notice.
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

  /** Settings for an embedded journal. */
  async embeddedJournal(): Promise<Record<string, string>> {
    return { DATA_DIR: await mkdtemp(join(this.folder, 'journal-')) }
  }

  /** Starts a server of `bench/programs/`, which prints its address. */
  async program(name: string, env: Record<string, string> = {}): Promise<Running> {
    const child = this.spawn(name, process.execPath, [programFile(name)], env)
    const [, url = ''] = await said(child, /serves at (\S+)/)
    return { url, process: child.process }
  }

  /** Runs a command, and waits for its end. @returns its standard output */
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

  /** The last output of the processes, for the message of a failure. */
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

/** The V8 flags in the first line of the command. */
async function v8Flags(): Promise<string[]> {
  const [first = ''] = (await readFile(CLI, 'utf8')).split('\n', 1)
  return first.split(' ').filter((word) => word.startsWith('--'))
}

export function programFile(name: string): string {
  return fileURLToPath(new URL(`./programs/${name}.js`, import.meta.url))
}

/** The largest resident memory of a process so far, in MiB; null if the system does not tell. */
export async function peakMemory({ pid }: ChildProcess): Promise<number | null> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(status)?.[1]
  return kib === undefined ? null : Number(kib) / 1024
}

export async function said(child: Child, pattern: RegExp): Promise<RegExpExecArray> {
  const found = await until(child, async () => pattern.exec(child.output))
  // After the greeting, only errors are of interest.
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
