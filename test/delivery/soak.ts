import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type RedisServer, type Scope, type Service, startService } from '../helper.js'
import { FLAWLESS, Ledger, type Verdict } from './ledger.js'
import { Producer, walk } from './producer.js'
import { enginePid, JOURNALS, type JournalKind, journalFor } from './servers.js'

const USAGE = `usage: npm run soak -- [--minutes N] [--journal redis|lmdb]

Ingests at full speed while the service, its ClickHouse and Redis are killed at random every few seconds, and compares
what is there in the end with what was answered. Exits with 1 where a single event is lost, there twice or out of place.`

const PRODUCERS = 4
const BATCH = 1000
const MIN_PEACE_MS = 1_000
const MAX_PEACE_MS = 5_000
const REPORT_MS = 60_000
/** For what is still in the journal at the end to be stored and read back. */
const READ_LIMIT_MS = 15 * 60_000

type Victim = 'service' | 'clickhouse' | 'redis'

/** The processes under test, each of which can be killed and comes back. */
class Victims {
  readonly kills: Record<Victim, number> = { service: 0, clickhouse: 0, redis: 0 }
  readonly #scope: Scope
  readonly #settings: Record<string, string>
  readonly #dataDir: string
  readonly #redis: RedisServer | null
  #service: Service

  private constructor(
    scope: Scope,
    { settings, dataDir, redis }: Awaited<ReturnType<typeof journalFor>>,
    service: Service,
  ) {
    this.#scope = scope
    this.#settings = settings
    this.#dataDir = dataDir
    this.#redis = redis
    this.#service = service
  }

  static async start(scope: Scope, journal: JournalKind): Promise<Victims> {
    const parts = await journalFor(scope, journal)
    return new Victims(scope, parts, await startService(scope, parts.settings))
  }

  get url(): string {
    return this.#service.url
  }

  /** Kills one of them, or in one of four cases all at the same moment, and starts again what does not do so by itself. */
  async killSome(): Promise<void> {
    const all: Victim[] = this.#redis ? ['service', 'clickhouse', 'redis'] : ['service', 'clickhouse']
    const one = all[Math.floor(Math.random() * all.length)]
    const chosen = all.filter((victim) => victim === one || Math.random() < 0.12)
    if (chosen.includes('redis')) {
      this.kills.redis++
      await this.#redis?.kill()
    }
    if (chosen.includes('clickhouse')) await this.#killClickHouse()
    if (chosen.includes('service')) {
      this.kills.service++
      this.#service.process.kill('SIGKILL')
      await this.#service.ended
    }
    if (chosen.includes('redis')) await this.#redis?.restart()
    if (chosen.includes('service')) this.#service = await startService(this.#scope, this.#settings)
  }

  async #killClickHouse(): Promise<void> {
    try {
      process.kill(await enginePid(this.#dataDir), 'SIGKILL')
      this.kills.clickhouse++
    } catch {
      // It is just being started.
    }
  }
}

async function ingest(producer: Producer, until: number): Promise<void> {
  while (Date.now() < until) await producer.insist(BATCH)
}

async function readBack(ledger: Ledger, url: string): Promise<Verdict> {
  const giveUpAt = Date.now() + READ_LIMIT_MS
  for (;;) {
    try {
      return await ledger.verdict(walk(url))
    } catch (error) {
      if (Date.now() > giveUpAt) throw error
      await wait(1_000)
    }
  }
}

async function soak(scope: Scope, journal: JournalKind, minutes: number): Promise<boolean> {
  const victims = await Victims.start(scope, journal)
  const ledger = new Ledger()
  const startedAt = Date.now()
  const until = startedAt + minutes * 60_000
  const killsText = () =>
    Object.entries(victims.kills)
      .filter(([, count]) => count > 0)
      .map(([victim, count]) => `${victim} ${count}`)
      .join(', ')
  const report = () => {
    const seconds = Math.round((Date.now() - startedAt) / 1000)
    const rate = Math.round(ledger.answered / seconds)
    console.log(`${seconds} s: ${ledger.answered} events answered, ${rate} per second; killed: ${killsText()}`)
  }
  const reporting = setInterval(report, REPORT_MS)
  scope.teardown(() => clearInterval(reporting))

  let isOver = false
  const killing = (async () => {
    while (!isOver) {
      await wait(MIN_PEACE_MS + Math.random() * (MAX_PEACE_MS - MIN_PEACE_MS))
      if (!isOver) await victims.killSome()
    }
  })()
  const producers = Array.from({ length: PRODUCERS }, () => new Producer(ledger, () => victims.url))
  const ingesting = Promise.all(producers.map((producer) => ingest(producer, until))).finally(() => {
    isOver = true
  })
  await Promise.all([ingesting, killing])
  clearInterval(reporting)
  report()

  const readAt = Date.now()
  const verdict = await readBack(ledger, victims.url)
  const { lost, twice, disordered, unexpected, renamed, examples } = verdict
  console.log(`read back in ${Math.round((Date.now() - readAt) / 1000)} s`)
  for (const example of examples) console.log(`  ${example}`)
  console.log(
    `${journal}: ${lost} lost, ${twice} twice, ${disordered} out of order, ${unexpected} unexpected, ${renamed} renamed`,
  )
  return JSON.stringify(verdict) === JSON.stringify(FLAWLESS)
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    journal: { type: 'string', default: 'redis' },
    help: { type: 'boolean', default: false },
  },
})
const minutes = Number(values.minutes)
const journal = JOURNALS.find((kind) => kind === values.journal)
if (values.help || !journal || !(minutes > 0)) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}
const closers: (() => unknown)[] = []
let isFlawless = false
try {
  isFlawless = await soak({ teardown: (close) => closers.unshift(close) }, journal, minutes)
} finally {
  for (const close of closers) await close()
}
process.exitCode = isFlawless ? 0 : 1
