import { StoreUnreachableError } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import type { Journal } from '../journal/journal.js'
import type { Log } from '../lib/log.js'
import { pause } from '../lib/pause.js'
import { withTimeout } from '../lib/with-timeout.js'
import { sumDeletions } from '../store/deleted-events.js'
import { claimJobTurn } from '../store/job-turns.js'
import { describeLedger, type ProjectLedger, readLedger } from './ledger.js'
import { WHAT_TO_DO } from './loss.js'

export interface LedgerWatchOptions {
  shards: Shards
  journals: readonly Pick<Journal, 'tally' | 'isUp'>[]
  /** version of the layout */
  layout: number
  log: Pick<Log, 'warn' | 'error'>
  /** delay of the first count, ms */
  firstMs?: number
  everyMs?: number
}

/** Counting 500 million events takes ClickHouse a second of one core. */
const EVERY_MS = 10 * 60_000
/** Delay of the first count, ms: the service has started by then, and lost parts were reported with their contents. */
const FIRST_MS = 60_000
/** Names the daily job that sums deleted events, for `claimJobTurn`. */
const SUM_TASK = 'sum deleted events'
/** How long a shutdown waits for a count, ms. */
const CLOSE_LIMIT_MS = 500

/**
 * Periodically counts the outcomes of all received events, and logs which projects have missing events. This finds
 * losses that comparing parts cannot find. If a journal or a shard does not respond, the previous counts stay.
 */
export class LedgerWatch {
  readonly #options: LedgerWatchOptions
  readonly #stop = new AbortController()
  #running: Promise<void> | null = null
  #ledgers: readonly ProjectLedger[] = []
  /** missing events by project, as last logged */
  #reported = new Map<string, number>()

  constructor(options: LedgerWatchOptions) {
    this.#options = options
  }

  /** The latest counts; empty before the first one. */
  get ledgers(): readonly ProjectLedger[] {
    return this.#ledgers
  }

  /** Missing events of all projects. */
  get missing(): number {
    return this.#ledgers.reduce((sum, { missing }) => sum + missing, 0)
  }

  /** Starts counting periodically, for the first time after a minute. */
  start(): void {
    this.#running ??= this.#watch()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await withTimeout(this.#running ?? Promise.resolve(), CLOSE_LIMIT_MS).catch(() => undefined)
  }

  async #watch(): Promise<void> {
    const { firstMs = FIRST_MS, everyMs = EVERY_MS, log } = this.#options
    const { signal } = this.#stop
    for (await pause(firstMs, signal); !signal.aborted; await pause(everyMs, signal)) {
      try {
        await this.#count()
        await this.#sumDeletions()
      } catch (err) {
        // An unavailable shard is logged elsewhere.
        const isKnown = err instanceof StoreUnreachableError || signal.aborted
        if (!isKnown) log.warn({ err }, 'the ledger of received events cannot be counted; retrying later')
      }
    }
  }

  async #sumDeletions(): Promise<void> {
    const { shards } = this.#options
    if (!(await claimJobTurn(shards, SUM_TASK, Math.floor(Date.now() / DAY_MS) * DAY_MS))) return
    await shards.each(({ clickhouse }) => sumDeletions(clickhouse))
  }

  async #count(): Promise<void> {
    const { shards, journals, layout, log } = this.#options
    // An unavailable journal is logged elsewhere.
    if (journals.some(({ isUp }) => !isUp)) return
    const tallies = await Promise.all(journals.map((journal) => journal.tally()))
    const ledgers = await readLedger(shards, tallies, layout)
    if (this.#stop.signal.aborted) return
    this.#ledgers = ledgers
    const missing = new Map(ledgers.filter(({ missing }) => missing > 0).map((ledger) => [ledger.project, ledger]))
    for (const [project, ledger] of missing) {
      if ((this.#reported.get(project) ?? 0) >= ledger.missing) continue
      const { received, stored, missing: events } = ledger
      const facts = { project, received, stored, missing: events }
      log.error(facts, `Events are missing: ${describeLedger(ledger)} ${WHAT_TO_DO}`)
    }
    this.#reported = new Map([...missing].map(([project, ledger]) => [project, ledger.missing]))
  }
}
