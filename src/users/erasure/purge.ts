import { StoreUnreachableError } from '../../clickhouse/errors.js'
import type { Shard, Shards } from '../../clickhouse/shards.js'
import type { Log } from '../../lib/log.js'
import { pause } from '../../lib/pause.js'
import type { ReadBarrier } from '../../reads/read-barrier.js'
import { waitForFacts } from '../../store/event-changes.js'
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
  /** minimum time between two rewrites of a table or month, ms; later deletions wait for the next one */
  intervalMs: number
  /** how often to check whether something is due, ms */
  pollMs?: number
  /** default: `PURGE_PACE` */
  pace?: PurgePace | undefined
}

/** How often one project may have its deleted data purged. */
export interface PurgePace {
  /** minimum pause after a purge, ms */
  pauseMs: number
  /**
   * the pause as a multiple of the time that the purge took, so that a project erasing in a loop keeps the store from
   * rewriting all the time
   */
  pauseFactor: number
}

const PURGE_PACE: PurgePace = { pauseMs: 5_000, pauseFactor: 5 }

/** @param key identifies the leftovers among the leftovers of all shards */
type IsWanted = (key: string, leftovers: Leftovers) => boolean

const EVERYTHING: IsWanted = () => true
const POLL_MS = 60_000
/** How long a purge waits for facts to follow the deletions, ms. */
const FACTS_WAIT_MS = 60_000
/** Pause after a failure, such as a full disk, which seldom passes within a minute. */
const RETRY_MS = 10 * 60_000

/**
 * Physically removes deleted rows from the store's disk. ClickHouse only hides them until it happens to merge their
 * part. This rewrites the months of events, and the parts of profiles and sessions, that hold such rows. A rewrite
 * costs the same however little was deleted, so each happens at most once per interval unless a caller asks for it.
 *
 * The remaining work is read from the store each time: nothing is lost at a restart, and it does not matter which
 * process deleted something. One purge runs at a time; calls during it share the next one. Deletions of a project soon
 * after a purge that it asked for are gathered for its next one, because each purge rewrites the months of all
 * projects.
 *
 * Shards are purged concurrently. One that fails or is down does not stop the others.
 */
export class Purge {
  readonly #options: PurgeOptions
  readonly #stop = new AbortController()
  #running: Promise<unknown> | null = null
  #next: Promise<number> | null = null
  #isWatching = false
  /** by asker: the purge that it waits for, which has not begun */
  readonly #gathered = new Map<string, Promise<number>>()
  /** by asker: resolves when it may ask for another one */
  readonly #turns = new Map<string, Promise<void>>()
  /**
   * when (epoch ms) a month or table of a shard first had leftovers; needed because patches look younger after
   * ClickHouse has merged them
   */
  readonly #since = new Map<string, number>()

  constructor(options: PurgeOptions) {
    this.#options = options
  }

  /**
   * Looks in the store for work that is due, immediately and then every minute. A failure is logged and retried.
   */
  start(): void {
    if (this.#isWatching) return
    this.#isWatching = true
    this.#watch()
  }

  /**
   * Removes everything that was deleted before the call from the parts in use, which may take as long as rewriting the
   * tables.
   * @param asker the project or task that asks; its calls within a few seconds, or within five times as long as its last
   *   purge took, share one purge
   * @returns when the old parts will have left the disk of every shard, epoch ms
   * @throws DiskSpaceError if a shard has no room for the copies, ShardUnreachableError if one is down; the others are
   *   done
   */
  now(asker: string): Promise<number> {
    const gathered = this.#gathered.get(asker) ?? this.#gather(asker)
    this.#gathered.set(asker, gathered)
    return gathered
  }

  async #gather(asker: string): Promise<number> {
    await this.#turns.get(asker)
    this.#stop.signal.throwIfAborted()
    // Deletions from now on may be too late for this purge.
    this.#gathered.delete(asker)
    this.#next ??= this.#after(this.#running)
    const purged = this.#next
    const turn = this.#pauseAfter(purged).finally(() => {
      if (this.#turns.get(asker) === turn) this.#turns.delete(asker)
    })
    this.#turns.set(asker, turn)
    return await purged
  }

  async #pauseAfter(purged: Promise<unknown>): Promise<void> {
    const began = performance.now()
    await purged.catch(() => undefined)
    const { pauseMs, pauseFactor } = this.#options.pace ?? PURGE_PACE
    await pause(Math.max(pauseMs, pauseFactor * (performance.now() - began)), this.#stop.signal)
  }

  /** Purges deletions that have waited for the whole interval; does nothing while another purge runs. */
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
      await pause(pauseMs, signal)
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
      // The rows that mark deletions must be stored first.
      await barrier.waitForAll()
      await this.#run(EVERYTHING)
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
      const findFacts = async () => {
        const found = await findEventLeftovers(clickhouse, 'event_facts')
        return found.map((leftovers) => ({ ...leftovers, partition: leftovers.id, id: `facts/${leftovers.id}` }))
      }
      const tables = await findTableLeftovers(clickhouse)
      const months = await findEventLeftovers(clickhouse)
      this.#forgetAllBut(shard, [...tables, ...months, ...(await findFacts())])
      const wanted = (leftovers: Leftovers) => isWanted(toKey(shard, leftovers.id), leftovers)
      await Promise.all(
        tables
          .filter(wanted)
          .map((leftovers) => rewrite(leftovers, () => purgeOldRows(clickhouse, shards, leftovers.id, signal))),
      )
      const due = months.filter(wanted)
      for (const leftovers of due) await rewrite(leftovers, () => rewriteParts(clickhouse, leftovers.id, signal))
      if (isWanted === EVERYTHING) await attempt(() => waitForFacts(clickhouse, FACTS_WAIT_MS, signal))
      // Include facts that an earlier run left behind, because it ended before they had caught up or before it reached
      // them.
      for (const facts of await findFacts()) {
        if (!wanted(facts) && due.length === 0) continue
        await rewrite(facts, () => rewriteParts(clickhouse, facts.partition, signal, 'event_facts'))
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

/** Identifies leftovers among the leftovers of all shards. */
function toKey({ number }: Shard, id: string): string {
  return `${number}/${id}`
}
