import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { ClickHouse } from '../../src/clickhouse/client.js'
import type { Shard, Shards } from '../../src/clickhouse/shards.js'
import { FactCopier, type FactCopierOptions } from '../../src/facts/fact-copier.js'
import { LevelBarrier } from '../../src/lanes/level-barrier.js'
import { parseEventId } from '../../src/model/event-id.js'
import { SessionFactsSource } from '../../src/questions/session-facts-source.js'
import { FactsReader } from '../../src/reads/facts-reader.js'
import { ReadBarrier } from '../../src/reads/read-barrier.js'
import { requestFacts } from '../../src/store/event-changes.js'
import { FactLead } from '../../src/store/fact-lead.js'
import { TcpProxy } from '../delivery/tcp-proxy.js'
import { LEADER_STATEMENTS } from '../facts/copied-facts.js'
import { type Scope, silent, until } from '../helper.js'

/** What happens to facts while questions are asked. */
export const HABITS = [
  'off',
  'complete',
  'lagging',
  'stopping',
  'dying',
  'losing replies',
  'rebuilding',
  'upgrading',
  'leaving out',
] as const
export type Habit = (typeof HABITS)[number]

/** The statements of a leader, and those that it rarely sends. */
const STATEMENTS = [
  ...LEADER_STATEMENTS,
  ...['INSERT INTO facts_checked', 'TRUNCATE TABLE event_facts'],
  ...['INSERT INTO session_facts (', 'INSERT INTO session_fact_days'],
]

/** Pause between two checks of a copier, enough for a question or two. */
const PAUSE_MS = 100

/**
 * How many reads of facts matched their point, how many had to be repeated, and how many questions read session facts.
 */
export interface Readings {
  held: number
  moved: number
  ofSessions: number
}

/** Counts the reads of facts by all services of this process. */
export function countReadings(): Readings {
  const readings = { held: 0, moved: 0, ofSessions: 0 }
  const { stillHolds, noteSessions } = FactsReader.prototype
  FactsReader.prototype.noteSessions = async function (...args) {
    if (args[1].isUsed) readings.ofSessions++
    await noteSessions.apply(this, args)
  }
  FactsReader.prototype.stillHolds = async function (...args) {
    const holds = await stillHolds.apply(this, args)
    readings[holds ? 'held' : 'moved']++
    return holds
  }
  return readings
}

/** Copies facts of a store instead of its service, with a bad habit, until the scope ends. */
export class Copiers {
  static forgetService(): void {
    barriers.last = null
    makers.last = undefined
  }

  readonly #habit: Habit
  readonly #scope: Scope
  readonly #stop = new AbortController()

  constructor(scope: Scope, habit: Habit) {
    this.#habit = habit
    this.#scope = scope
  }

  /** @param urls of the shards */
  async start(shards: Shards, urls: readonly string[]): Promise<void> {
    if (this.#habit !== 'off') await until('the service to copy', () => barriers.last !== null)
    const running = shards.all.map(async (shard, i) => {
      const act = await this.#act(shard, urls[i] ?? '')
      while (act && !this.#stop.signal.aborted) {
        await act().catch((error) => {
          if (!this.#stop.signal.aborted) console.error('a copier:', error)
        })
      }
    })
    this.#scope.teardown(async () => {
      this.#stop.abort()
      await Promise.all(running)
    })
  }

  async #pause(ms: number): Promise<void> {
    await wait(ms * Math.random(), undefined, { signal: this.#stop.signal }).catch(() => undefined)
  }

  /** @returns the task to repeat; null if the service itself copies */
  async #act({ clickhouse }: Shard, url: string): Promise<(() => Promise<void>) | null> {
    const { signal } = this.#stop
    const copier = (options: Partial<FactCopierOptions> = {}) => {
      const started = new FactCopier({ ...this.#options(clickhouse), ...options })
      started.start()
      return started
    }
    const hold = () => FactLead.take(clickhouse, { process: randomUUID(), isShared: false, log: silent, signal })
    switch (this.#habit) {
      case 'off':
      case 'complete':
        return null
      case 'lagging':
        return async () => {
          const lagging = copier({
            barrier: { reach: () => someReach(clickhouse) },
            maxStep: { rows: 20, bytes: 1 << 20 },
          })
          await this.#pause(4_000)
          await lagging.close()
        }
      case 'stopping':
        return async () => {
          const one = copier()
          await this.#pause(1_000)
          await one.close()
          const lead = await hold()
          await this.#pause(3_000)
          await lead?.release()
        }
      case 'dying':
      case 'losing replies': {
        const proxy = await TcpProxy.open(this.#scope, url)
        const proxied = new ClickHouse({ url: proxy.url })
        this.#scope.teardown(() => proxied.close())
        return async () => {
          const text = STATEMENTS[Math.floor(Math.random() * STATEMENTS.length)] ?? ''
          const { held, release } =
            this.#habit === 'dying' ? proxy.hold(text) : { held: proxy.loseReply(text), release: async () => undefined }
          const one = copier({ clickhouse: proxied })
          await Promise.race([held, this.#pause(3_000)])
          const next = this.#habit === 'dying' ? copier() : null
          await this.#pause(1_500)
          await release()
          await Promise.all([one.close(), next?.close()])
        }
      }
      case 'rebuilding':
        return async () => {
          await requestFacts(clickhouse, 'rebuild', '')
          await this.#pause(4_000)
        }
      case 'upgrading':
        return async () => {
          const lead = await hold()
          await lead?.rebuild(`1.${Date.now()}`)
          const one = copier()
          await this.#pause(4_000)
          await one.close()
        }
      case 'leaving out':
        return async () => {
          const [row] = await clickhouse.rows<{ project: string }>(
            'SELECT project_id AS project FROM events GROUP BY project ORDER BY rand() LIMIT 1',
          )
          if (row) await requestFacts(clickhouse, Math.random() < 0.5 ? 'leave_out' : 'take_in', row.project)
          await this.#pause(1_000)
        }
      default:
        throw new Error(`no such habit: ${this.#habit satisfies never}`)
    }
  }

  #options(clickhouse: ClickHouse): FactCopierOptions {
    const log = { info: () => undefined, warn: silent.warn }
    const journals: [] = []
    const barrier = { reach: lastReach }
    const sessions = { sessions: makers.last, sessionsPace: { everyMs: PAUSE_MS, pauseFactor: 20 } }
    return { clickhouse, barrier, journals, isOn: true, isShared: false, log, pauseMs: PAUSE_MS, ...sessions }
  }
}

type Reach = Awaited<ReturnType<FactCopierOptions['barrier']['reach']>>

/** The barrier of a service of this process, which tells a copier what is stored. */
const barriers: { last: FactCopierOptions['barrier'] | null } = { last: null }
for (const { prototype } of [ReadBarrier, LevelBarrier]) {
  const { reach } = prototype
  prototype.reach = async function () {
    // The barrier of several lanes uses one of each lane.
    if (!(barriers.last instanceof LevelBarrier && this instanceof ReadBarrier)) barriers.last = this
    return await reach.call(this)
  }
}

/** The source of session facts of the service of this process. */
const makers: { last: SessionFactsSource | undefined } = { last: undefined }
const { define } = SessionFactsSource.prototype
SessionFactsSource.prototype.define = function (...args) {
  makers.last = this
  return define.apply(this, args)
}

async function lastReach(): Promise<Reach> {
  return barriers.last ? await barriers.last.reach() : { accepted: 0n, stored: 0n }
}

/** The reach up to a random stored event. */
async function someReach(clickhouse: ClickHouse): Promise<Reach> {
  const { stored } = await lastReach()
  const [row] = await clickhouse.rows<{ id: string }>(
    'SELECT toString(event_id) AS id FROM events ORDER BY rand() LIMIT 1',
  )
  const position = (row && parseEventId(row.id)?.position) ?? 0n
  return { accepted: stored, stored: position < stored ? position : stored }
}
