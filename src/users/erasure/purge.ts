import { setTimeout as wait } from 'node:timers/promises'
import { StoreUnreachableError } from '../../clickhouse/errors.js'
import type { Shard, Shards } from '../../clickhouse/shards.js'
import type { Log } from '../../lib/log.js'
import type { ReadBarrier } from '../../reads/read-barrier.js'
import {
  DiskSpaceError,
  findEventLeftovers,
  findTableLeftovers,
  type Leftovers,
  purgeOldRows,
  readOldPartsLifetime,
  rewriteParts,
} from '../../store/rewrite.js'

export interface PurgeOptions {
  shards: Shards
  barrier: Pick<ReadBarrier, 'waitForAll'>
  log: Pick<Log, 'warn'>
  /** what is deleted within this time of the last rewriting of its table or month waits for the next one, ms */
  intervalMs: number
  /** how often to check whether something is due, ms */
  pollMs?: number
  /** default: `PURGE_PACE` */
  pace?: PurgePace | undefined
}

/** How often one project may have its deleted data purged. */
export interface PurgePace {
  /** the shortest pause after a purge, ms */
  pauseMs: number
  /** the pause as a multiple of the time that the purge took, so that a project erasing in a loop keeps the store from rewriting all the time */
  pauseFactor: number
}

export const PURGE_PACE: PurgePace = { pauseMs: 5_000, pauseFactor: 5 }

/** @param key of the leftovers among those of all shards */
type IsWanted = (key: string, leftovers: Leftovers) => boolean

const POLL_MS = 60_000
/** Pause after a failure, such as a full disk, which seldom passes within a minute. */
const RETRY_MS = 10 * 60_000

/**
 * Takes what was deleted off the store's disk. ClickHouse only hides deleted rows until it happens to merge them; this
 * rewrites the months of events, and the parts of profiles and sessions, that hold such rows. Rewriting costs as much
 * however little was deleted, so none is rewritten by itself more than once in an interval.
 *
 * The remaining work is read from the store each time: nothing is lost at a restart, and it does not matter which
 * process deleted something. One purge runs at a time; calls during it share the next one. What a project deletes soon after
 * a purge that it asked for is gathered for its next one, since each rewrites the months of all projects.
 *
 * Shards are purged side by side, each of its own leftovers; one that fails or is down does not stop the others.
 */
export class Purge {
  readonly #options: PurgeOptions
  readonly #stop = new AbortController()
  #running: Promise<unknown> | null = null
  #next: Promise<number> | null = null
  #isWatching = false
  /** by project: the purge that it waits for, which has not begun */
  readonly #gathered = new Map<string, Promise<number>>()
  /** by project: resolves when it may ask for another one */
  readonly #turns = new Map<string, Promise<void>>()
  /**
   * since when (epoch ms) a month or table of a shard has had leftovers: ClickHouse merges patches, which makes them look
   * younger
   */
  readonly #since = new Map<string, number>()

  constructor(options: PurgeOptions) {
    this.#options = options
  }

  /**
   * From now on, looks in the store for work that is due, immediately and then each minute. A failure is logged and
   * retried.
   */
  start(): void {
    if (this.#isWatching) return
    this.#isWatching = true
    this.#watch()
  }

  /**
   * Resolves when everything deleted before the call is in no part that is in use, which may take as long as rewriting
   * the tables; with the time by which the parts from before have left the disk of every shard, in epoch milliseconds.
   * @param projectId whose data it is; a project's calls within some seconds, or five times as long as its last purge took, share
   *   one purge
   * @throws DiskSpaceError if a shard has no room for the copies, ShardUnreachableError if one is down; the others are done
   */
  now(projectId: string): Promise<number> {
    const gathered = this.#gathered.get(projectId) ?? this.#gather(projectId)
    this.#gathered.set(projectId, gathered)
    return gathered
  }

  async #gather(projectId: string): Promise<number> {
    await this.#turns.get(projectId)
    this.#stop.signal.throwIfAborted()
    // Later deletions may be too late for this purge.
    this.#gathered.delete(projectId)
    this.#next ??= this.#after(this.#running)
    const purged = this.#next
    const turn = this.#pauseAfter(purged).finally(() => {
      if (this.#turns.get(projectId) === turn) this.#turns.delete(projectId)
    })
    this.#turns.set(projectId, turn)
    return await purged
  }

  async #pauseAfter(purged: Promise<unknown>): Promise<void> {
    const began = performance.now()
    await purged.catch(() => undefined)
    const { pauseMs, pauseFactor } = this.#options.pace ?? PURGE_PACE
    const tookMs = performance.now() - began
    await wait(Math.max(pauseMs, pauseFactor * tookMs), undefined, { signal: this.#stop.signal, ref: false }).catch(
      () => undefined,
    )
  }

  /** Takes off what has waited for as long as it may; nothing while another purge runs. */
  async due(): Promise<void> {
    if (this.#running) return
    const running = this.#run((key, leftovers) => this.#isDue(key, leftovers))
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

  #isDue(key: string, { deletedForMs, writtenForMs }: Leftovers): boolean {
    const now = Date.now()
    const since = Math.min(now - deletedForMs, this.#since.get(key) ?? now)
    this.#since.set(key, since)
    return Math.max(now - since, writtenForMs) >= this.#options.intervalMs
  }

  async #after(running: Promise<unknown> | null): Promise<number> {
    await running?.catch(() => undefined)
    const next = this.#next
    this.#running = next
    this.#next = null
    try {
      const { barrier, shards } = this.#options
      // The rows that say what was deleted must be stored first.
      await barrier.waitForAll()
      await this.#run(() => true)
      const lifetimes = await shards.each(({ clickhouse }) => readOldPartsLifetime(clickhouse))
      return Date.now() + Math.max(...lifetimes)
    } finally {
      if (this.#running === next) this.#running = null
    }
  }

  /** A failure of one month, table or shard does not stop the others. */
  async #run(isWanted: IsWanted): Promise<void> {
    const { shards } = this.#options
    const failures = (await Promise.all(shards.all.map((shard) => this.#purge(shard, isWanted)))).flat()
    if (failures.length === 0) return
    // Prefer an error that needs an operator over a transient one.
    throw failures.find((failure) => !(failure instanceof StoreUnreachableError)) ?? failures[0]
  }

  /** @returns what failed */
  async #purge(shard: Shard, isWanted: IsWanted): Promise<unknown[]> {
    const { shards } = this.#options
    const { signal } = this.#stop
    const failures: unknown[] = []
    const attempt = async (purge: () => Promise<void>) => {
      await shards.on(shard, purge).catch((error: unknown) => failures.push(this.#named(shard, error)))
    }
    const rewrite = async ({ id }: Leftovers, purge: () => Promise<void>) => {
      signal.throwIfAborted()
      await attempt(async () => {
        await purge()
        this.#since.delete(toKey(shard, id))
      })
    }
    await attempt(async () => {
      const { clickhouse } = shard
      const tables = await findTableLeftovers(clickhouse)
      const months = await findEventLeftovers(clickhouse)
      this.#forgetAllBut(shard, [...tables, ...months])
      const wanted = (leftovers: Leftovers) => isWanted(toKey(shard, leftovers.id), leftovers)
      await Promise.all(
        tables
          .filter(wanted)
          .map((leftovers) => rewrite(leftovers, () => purgeOldRows(clickhouse, shards, leftovers.id, signal))),
      )
      for (const leftovers of months.filter(wanted)) {
        await rewrite(leftovers, () => rewriteParts(clickhouse, leftovers.id, signal))
      }
    })
    return failures
  }

  #forgetAllBut(shard: Shard, leftovers: Leftovers[]): void {
    const left = new Set(leftovers.map(({ id }) => toKey(shard, id)))
    for (const key of this.#since.keys()) {
      if (key.startsWith(toKey(shard, '')) && !left.has(key)) this.#since.delete(key)
    }
  }

  /** Names the shard in the error of a full disk, if there are several. */
  #named({ number, name }: Shard, error: unknown): unknown {
    if (!this.#options.shards.areSeveral || !(error instanceof DiskSpaceError)) return error
    return new DiskSpaceError(`Shard ${number} (${name}): ${error.message}`, { cause: error })
  }
}

/** Names the leftovers of all shards. */
function toKey({ number }: Shard, id: string): string {
  return `${number}/${id}`
}
