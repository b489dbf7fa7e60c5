import type { FastifyBaseLogger } from 'fastify'
import type { CatchUp } from './catch-up.js'
import type { ClickHouse } from './store/clickhouse.js'
import { oldPartsLifetime, purgeEvents, purgeOldRows } from './store/purge.js'

export interface PurgeOptions {
  clickhouse: ClickHouse
  catchUp: Pick<CatchUp, 'reachAll'>
  log: Pick<FastifyBaseLogger, 'warn'>
  /** from a first deletion until what was deleted by then is purged, ms */
  delayMs?: number
}

/** Rewriting costs as much however little was deleted, so what is deleted within this time is purged together. */
const DELAY_MS = 60_000

/**
 * Takes what was deleted off the store's disk. ClickHouse only hides deleted rows until it happens to merge them; this
 * rewrites the parts of a table that hold such rows. One purge at a time; those who ask while one runs share the next.
 * It goes by what is in the store, so one that was cut off is made good by the next.
 */
export class Purge {
  readonly #options: PurgeOptions
  readonly #stop = new AbortController()
  #running: Promise<number> | null = null
  #next: Promise<number> | null = null
  #timer: NodeJS.Timeout | null = null

  constructor(options: PurgeOptions) {
    this.#options = options
  }

  /** Within a minute; a failure is logged, and left to the next one. */
  later(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null
      this.now().catch((error) => {
        this.#options.log.warn({ err: error }, 'deleted data is still on disk; the next purge takes it along')
      })
    }, this.#options.delayMs ?? DELAY_MS).unref()
  }

  /**
   * Resolves when everything deleted before the call is in no part that is in use, which may take as long as rewriting
   * the tables; with the time by which the parts from before have left the disk, in epoch milliseconds.
   */
  now(): Promise<number> {
    this.#next ??= this.#after(this.#running)
    return this.#next
  }

  close(): void {
    this.#stop.abort()
    if (this.#timer) clearTimeout(this.#timer)
  }

  async #after(running: Promise<number> | null): Promise<number> {
    await running?.catch(() => undefined)
    this.#running = this.#next
    this.#next = null
    return await this.#run()
  }

  async #run(): Promise<number> {
    const { clickhouse, catchUp } = this.#options
    // The rows that say what was deleted are to be there.
    await catchUp.reachAll()
    await purgeEvents(clickhouse, this.#stop.signal)
    await purgeOldRows(clickhouse, 'profiles', this.#stop.signal)
    await purgeOldRows(clickhouse, 'sessions', this.#stop.signal)
    return Date.now() + (await oldPartsLifetime(clickhouse))
  }
}
