import { randomUUID } from 'node:crypto'
import { isStoreError } from '../clickhouse/errors.js'
import type { ClickHouseSettings } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { HOUR_MS } from '../contract/durations.js'

/**
 * Minimum age of the entries that are read, ms. Servers add entries every 7.5 s by default; one that is added after a
 * later one would be missed.
 */
const SETTLED_MS = 20_000
/** The table exists from its first entry on. If it does not exist this long after the first read, there is none, ms. */
const CREATED_MS = 60_000
/** Entries are read from this long before the start of this process, ms: the clock of a server may be behind. */
const CLOCK_MS = HOUR_MS

/**
 * The CPU time of this process's reads, from the log of queries that each ClickHouse keeps. Its HTTP interface tells
 * only how long a query took, which depends on what else was running.
 *
 * Not promised: reads are missed that were logged less than SETTLED_MS before the end of this process, or by a replica
 * that is no longer in use.
 */
export class ReadLog {
  readonly #settledMs: number
  /** begins the labels of this process's reads */
  readonly #process = randomUUID()
  /** by shard: the time up to which entries were read, µs, by its clock */
  readonly #readUpTo = new Map<number, number>()
  readonly #since = (Date.now() - CLOCK_MS) * 1000
  /** when the first read began; null before that */
  #usedAt: number | null = null

  constructor(settledMs = SETTLED_MS) {
    this.#settledMs = settledMs
  }

  /** Settings by which the log names the process and the project of a read. */
  label(projectId: string): ClickHouseSettings {
    this.#usedAt ??= performance.now()
    return { log_comment: `${this.#process}${projectId}`, ...LOGGED }
  }

  /**
   * Reads what was logged since the last call.
   * @returns CPU time by project, ms; null if a ClickHouse keeps no log, or does not let its user read it
   * @throws StoreUnreachableError, StoreError
   */
  async readNew(shards: Shards): Promise<Map<string, number> | null> {
    if (this.#usedAt === null) return new Map()
    const values = { process: this.#process, settled: this.#settledMs }
    try {
      const found = await shards.each(async ({ number, clickhouse }) => {
        const since = this.#readUpTo.get(number) ?? this.#since
        const [clock] = await clickhouse.rows<{ us: string }>(CLOCK, values)
        const upTo = Math.max(since, Number(clock?.us ?? 0))
        const rows = await clickhouse.rows<{ label: string; us: string }>(READ, { ...values, since, upTo })
        return { number, upTo, rows }
      })
      const sums = new Map<string, number>()
      // If a shard fails, the entries of all shards are read again.
      for (const { number, upTo, rows } of found) {
        this.#readUpTo.set(number, upTo)
        for (const { label, us } of rows) {
          const projectId = label.slice(this.#process.length)
          sums.set(projectId, (sums.get(projectId) ?? 0) + Number(us) / 1000)
        }
      }
      return sums
    } catch (error) {
      if (isStoreError(error, 'ACCESS_DENIED')) return null
      if (!isStoreError(error, 'UNKNOWN_TABLE')) throw error
      return performance.now() - this.#usedAt < CREATED_MS ? new Map() : null
    }
  }
}

/** Settings that log a query, whatever the user's profile says. The embedded engine logs nothing else. */
const LOGGED: ClickHouseSettings = {
  log_queries: 1,
  log_queries_probability: 1,
  log_queries_min_type: 'QUERY_FINISH',
  log_queries_min_query_duration_ms: 0,
}

const CLOCK = 'SELECT toUnixTimestamp64Micro(now64(6) - toIntervalMillisecond({settled:UInt32})) AS us'

const READ = `
  WITH fromUnixTimestamp64Micro({since:Int64}) AS since, fromUnixTimestamp64Micro({upTo:Int64}) AS until
  SELECT log_comment AS label,
    sum(ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds']) AS us
  FROM system.query_log
  WHERE event_date >= toDate(since) - 1 AND event_time >= toDateTime(since) AND event_time_microseconds > since
    AND event_time_microseconds <= until
    AND startsWith(log_comment, {process:String}) AND type != 'QueryStart'
  GROUP BY label`
