import { setTimeout as wait } from 'node:timers/promises'
import type { ClickHouse } from '../clickhouse/client.js'
import { StoreUnreachableError } from '../clickhouse/errors.js'
import type { Log } from '../lib/log.js'
import type { ReadBarrier } from '../pipeline/read-barrier.js'
import {
  type Leftovers,
  leftoversOfEvents,
  leftoversOfTables,
  oldPartsLifetime,
  purgeOldRows,
  rewriteParts,
} from '../store/rewrite.js'

export interface PurgeOptions {
  clickhouse: ClickHouse
  barrier: Pick<ReadBarrier, 'waitForAll'>
  log: Pick<Log, 'warn'>
  /** what is deleted within this time of the last rewriting of its table or month waits for the next one, ms */
  intervalMs: number
  /** how often to check whether something is due, ms */
  pollMs?: number
}

const POLL_MS = 60_000
/** After a failure, as of a full disk, which seldom passes within a minute. */
const RETRY_MS = 10 * 60_000

/**
 * Takes what was deleted off the store's disk. ClickHouse only hides deleted rows until it happens to merge them; this
 * rewrites the months of events, and the parts of profiles and sessions, that hold such rows. Rewriting costs as much
 * however little was deleted, so none is rewritten by itself more than once in an interval.
 *
 * What is left to do is asked of the store each time: nothing is lost at a restart, and it does not matter which
 * process deleted something. One purge runs at a time; calls during it share the next one.
 */
export class Purge {
  readonly #options: PurgeOptions
  readonly #stop = new AbortController()
  #running: Promise<unknown> | null = null
  #next: Promise<number> | null = null
  #isWatching = false
  /** since when (epoch ms) a month or table has had leftovers: ClickHouse merges patches, which makes them look younger */
  #since = new Map<string, number>()

  constructor(options: PurgeOptions) {
    this.#options = options
  }

  /** From now on, asks the store at once and then each minute what is due. A failure is logged and retried later. */
  start(): void {
    if (this.#isWatching) return
    this.#isWatching = true
    this.#watch()
  }

  /**
   * Resolves when everything deleted before the call is in no part that is in use, which may take as long as rewriting
   * the tables; with the time by which the parts from before have left the disk, in epoch milliseconds.
   * @throws DiskSpaceError if the store has no room for the copies
   */
  now(): Promise<number> {
    this.#next ??= this.#after(this.#running)
    return this.#next
  }

  /** Takes off what has waited for as long as it may; nothing while another purge runs. */
  async due(): Promise<void> {
    if (this.#running) return
    const running = this.#run((leftovers) => this.#isDue(leftovers))
    this.#running = running
    try {
      await running
    } finally {
      if (this.#running === running) this.#running = null
    }
  }

  close(): void {
    this.#stop.abort()
  }

  async #watch(): Promise<void> {
    const { pollMs = POLL_MS, log } = this.#options
    const { signal } = this.#stop
    while (!signal.aborted) {
      let pauseMs = pollMs
      try {
        await this.due()
      } catch (error) {
        if (signal.aborted) return
        // The writer logs that ClickHouse is unavailable.
        if (!(error instanceof StoreUnreachableError)) {
          pauseMs = Math.max(pollMs, RETRY_MS)
          log.warn({ err: error }, 'deleted data is still on the disk of ClickHouse; retrying in ten minutes')
        }
      }
      await wait(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
  }

  #isDue({ id, deletedForMs, writtenForMs }: Leftovers): boolean {
    const now = Date.now()
    const since = Math.min(now - deletedForMs, this.#since.get(id) ?? now)
    this.#since.set(id, since)
    return Math.max(now - since, writtenForMs) >= this.#options.intervalMs
  }

  async #after(running: Promise<unknown> | null): Promise<number> {
    await running?.catch(() => undefined)
    const next = this.#next
    this.#running = next
    this.#next = null
    try {
      const { barrier, clickhouse } = this.#options
      // The rows that say what was deleted are to be there.
      await barrier.waitForAll()
      await this.#run(() => true)
      return Date.now() + (await oldPartsLifetime(clickhouse))
    } finally {
      if (this.#running === next) this.#running = null
    }
  }

  /** A failure of one does not stop the others. */
  async #run(isWanted: (leftovers: Leftovers) => boolean): Promise<void> {
    const { clickhouse } = this.#options
    const { signal } = this.#stop
    const failures: unknown[] = []
    const rewrite = async ({ id }: Leftovers, purge: () => Promise<void>) => {
      signal.throwIfAborted()
      try {
        await purge()
        this.#since.delete(id)
      } catch (error) {
        failures.push(error)
      }
    }
    const tables = await leftoversOfTables(clickhouse)
    const months = await leftoversOfEvents(clickhouse)
    const left = new Set([...tables, ...months].map(({ id }) => id))
    for (const id of this.#since.keys()) if (!left.has(id)) this.#since.delete(id)
    await Promise.all(
      tables
        .filter(isWanted)
        .map((leftovers) => rewrite(leftovers, () => purgeOldRows(clickhouse, leftovers.id, signal))),
    )
    for (const leftovers of months.filter(isWanted)) {
      await rewrite(leftovers, () => rewriteParts(clickhouse, leftovers.id, signal))
    }
    if (failures.length > 0) throw failures[0]
  }
}
