import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Scope } from '../helper.js'
import { FAULTLESS } from './calls.js'
import { CAN_OFFSET_CLOCKS } from './clock-offset.js'
import { Installation } from './installation.js'
import { FLAWLESS, type Verdict } from './ledger.js'
import { Load } from './load.js'

const USAGE = `usage: npm run soak -- [--lanes N] [--shards N] [--services N] [--minutes N | --seconds N] [--journal redis|lmdb] [--batch N]
                           [--calm]

Does all that users do, at full speed, while any process is killed or paused, and any link cut or slowed down, at random
every few seconds: the services (default: one for one lane, else two), a Redis for each lane (default: one) and as many
ClickHouses (or --shards).
Compares what is there in the end with what was answered. Exits with 1 where a single event, edit, profile or session is
lost, there twice or out of place, where a walk during the writes has missed an event, or a client its own write.
With --journal lmdb, the journal and ClickHouse are the embedded ones. With --calm, nothing is killed or disturbed, so that
the memory and the open files of the services, which are printed every minute, should not grow.`

const MIN_PEACE_MS = 1_000
const MAX_PEACE_MS = 5_000
const MAX_CUT_MS = 4_000
const MAX_DELAY_MS = 300
/** Longer than a writer's lease. */
const MAX_PAUSE_MS = 15_000
const REPORT_MS = 60_000
/** For what is still in the journal at the end to be stored, so that it can be read back. */
const DRAIN_LIMIT_MS = 15 * 60_000

/** Kills, cuts and slows down at random, and counts what it did. */
class Chaos {
  readonly #installation: Installation
  readonly #done = new Map<string, number>()
  readonly #over = new AbortController()
  #running: Promise<void> = Promise.resolve()
  #fail: (error: unknown) => void = () => undefined
  /** Rejects when something that was killed does not start again; never resolves. */
  readonly failed = new Promise<never>((_resolve, reject) => {
    this.#fail = reject
  })

  constructor(installation: Installation) {
    this.#installation = installation
  }

  start(): void {
    this.#running = this.#run()
    this.#running.catch((error: unknown) => this.#fail(error))
  }

  /** Ends when everything serves again. */
  async stop(): Promise<void> {
    this.#over.abort()
    await this.#running
  }

  toString(): string {
    return [...this.#done].map(([what, times]) => `${what} ${times}`).join(', ')
  }

  async #run(): Promise<void> {
    const { signal } = this.#over
    // On a busy machine, what was killed needs long to start: without as much peace, a call could fail for ever.
    let disturbedMs = 0
    while (!signal.aborted) {
      const peaceMs = MIN_PEACE_MS + Math.random() * (MAX_PEACE_MS - MIN_PEACE_MS) + disturbedMs
      await wait(peaceMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const began = performance.now()
      const what = Math.random()
      if (this.#installation.redis.length === 0 || what < 0.6) await this.#kill()
      else if (what < 0.9) await this.#disturb()
      else await this.#pause()
      disturbedMs = performance.now() - began
    }
  }

  /** Suspends one process for some seconds, as when its machine is frozen. */
  async #pause(): Promise<void> {
    const victim = oneOf(this.#installation.victims)
    const pid = victim.pid()
    if (pid === undefined) return
    this.#count(`pause ${victim.name}`)
    process.kill(pid, 'SIGSTOP')
    await wait(Math.random() * MAX_PAUSE_MS)
    process.kill(pid, 'SIGCONT')
  }

  /** Kills one process, or in some cases several at the same moment. */
  async #kill(): Promise<void> {
    const { victims } = this.#installation
    const one = oneOf(victims)
    const chosen = victims.filter((victim) => victim === one || Math.random() < 0.12)
    await Promise.all(
      chosen.map((victim) => {
        this.#count(`kill ${victim.name}`)
        return victim.kill()
      }),
    )
  }

  /** Cuts a link for some seconds, or slows it down. */
  async #disturb(): Promise<void> {
    const { redis, clickhouse } = this.#installation
    const named = [
      ...redis.map(({ link }, i) => ({ link, name: `redis ${i}` })),
      ...clickhouse.map(({ link }, i) => ({ link, name: `clickhouse ${i}` })),
    ]
    const { link, name } = oneOf(named)
    const isCut = Math.random() < 0.5
    this.#count(`${isCut ? 'cut' : 'delay'} ${name}`)
    if (isCut) link.cut()
    else link.delayMs = 1 + Math.random() * MAX_DELAY_MS
    await wait(Math.random() * MAX_CUT_MS)
    if (isCut) link.restore()
    else link.delayMs = 0
  }

  #count(what: string): void {
    this.#done.set(what, (this.#done.get(what) ?? 0) + 1)
  }
}

function oneOf<T>(all: T[]): T {
  return all[Math.floor(Math.random() * all.length)] as T
}

/** The resident memory and the open files of the services, such as `service 0: 240 MiB, 61 files`. */
function measure({ victims }: Installation): string {
  const services = victims.filter(({ kind }) => kind === 'service')
  return services
    .map(({ name, pid }) => {
      try {
        const [, pages] = readFileSync(`/proc/${pid()}/statm`, 'utf8').split(' ')
        const files = readdirSync(`/proc/${pid()}/fd`).length
        return `${name}: ${Math.round((Number(pages) * 4096) / 1024 ** 2)} MiB, ${files} files`
      } catch {
        return `${name} is being started, or /proc is missing`
      }
    })
    .join('; ')
}

interface Options {
  isCalm: boolean
  lanes: number
  shards: number
  services: number
  seconds: number
  batch: number
}

async function soak(scope: Scope, { isCalm, lanes, shards, services, seconds, batch }: Options): Promise<boolean> {
  if (lanes > 1 && !CAN_OFFSET_CLOCKS) console.log('faketime is not installed: the clocks of the lanes are the same')
  const installation = await Installation.start(scope, { lanes, shards, services })
  const load = new Load(installation, { batch, clients: 2 })
  const chaos = new Chaos(installation)
  const startedAt = Date.now()
  const report = () => {
    const passed = Math.round((Date.now() - startedAt) / 1000)
    const { answered } = load.ledger
    console.log(`${passed} s: ${answered} events answered, ${Math.round(answered / passed)} per second; ${chaos}`)
    console.log(`  ${measure(installation)}`)
  }
  const reporting = setInterval(report, REPORT_MS)
  scope.teardown(() => clearInterval(reporting))

  load.start(scope)
  if (!isCalm) chaos.start()
  await Promise.race([wait(seconds * 1_000), load.failed, chaos.failed])
  // First, as the clients insist until everything serves again.
  await chaos.stop()
  await load.stop()
  clearInterval(reporting)
  report()

  const readAt = Date.now()
  const { stored, live, faults, examples } = await load.verdict(DRAIN_LIMIT_MS)
  console.log(`read back in ${Math.round((Date.now() - readAt) / 1000)} s`)
  console.log(`clients: ${textOf(load.findings.counts)}`)
  for (const example of [...stored.examples, ...live.examples, ...examples]) console.log(`  ${example}`)
  if (examples.length > 0) console.log(load.failures)
  console.log(`stored: ${verdictText(stored)}`)
  console.log(`walk during the writes: ${verdictText(live)}`)
  console.log(`clients: ${textOf(faults)}; ${load.ledger.sharedIds.length} ids answered twice`)
  const wanted = [FLAWLESS, FLAWLESS, FAULTLESS, []]
  return JSON.stringify([stored, live, faults, load.ledger.sharedIds]) === JSON.stringify(wanted)
}

function verdictText({ examples: _, ...counts }: Verdict): string {
  return textOf(counts)
}

function textOf(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([what, count]) => `${count} ${what}`)
    .join(', ')
}

function readOptions(): Options | 'help' | null {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '10' },
      seconds: { type: 'string' },
      lanes: { type: 'string', default: '1' },
      shards: { type: 'string' },
      services: { type: 'string' },
      journal: { type: 'string', default: 'redis' },
      batch: { type: 'string', default: '1000' },
      calm: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const isEmbedded = values.journal === 'lmdb'
  const lanes = isEmbedded ? 0 : Number(values.lanes)
  const shards = Number(values.shards ?? lanes)
  const services = Number(values.services ?? (lanes > 1 ? 2 : 1))
  const seconds = Number(values.seconds ?? Number(values.minutes) * 60)
  const batch = Number(values.batch)
  const areRight = [services, seconds, batch].every((number) => number > 0) && (isEmbedded || shards > 0)
  const isPossible = isEmbedded ? services === 1 && values.lanes === '1' : lanes >= shards
  return areRight && isPossible && ['lmdb', 'redis'].includes(values.journal)
    ? { isCalm: values.calm, lanes, shards, services, seconds, batch }
    : null
}

const options = readOptions()
if (options === null || options === 'help') {
  console.log(USAGE)
  process.exit(options === 'help' ? 0 : 2)
}
const closers: (() => unknown)[] = []
let isFaultless = false
try {
  isFaultless = await soak({ teardown: (close) => closers.unshift(close) }, options)
} finally {
  for (const close of closers) await close()
}
process.exitCode = isFaultless ? 0 : 1
