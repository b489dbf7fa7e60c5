import { randomUUID } from 'node:crypto'
import type { ClickHouseSettings } from '@clickhouse/client'
import { isStoreError } from '../clickhouse/errors.js'
import type { Shards } from '../clickhouse/shards.js'

/**
 * How old the entries are that are read, ms. By default, a server adds entries to the table every 7.5 s, and what comes
 * after later ones would be missed.
 */
const SETTLED_MS = 20_000
/** Entries are read from this long before the start of this process, ms: the clock of a server may be behind. */
const CLOCK_MS = 3_600_000

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
  /** by shard: the time of the last entry that was read, µs */
  readonly #last = new Map<number, number>()
  readonly #since = (Date.now() - CLOCK_MS) * 1000
  #isUsed = false

  constructor(settledMs = SETTLED_MS) {
    this.#settledMs = settledMs
  }

  /** Settings by which the log names the process and the project of a read. */
  label(projectId: string): ClickHouseSettings {
    this.#isUsed = true
    // The embedded engine logs nothing else.
    return { log_comment: `${this.#process}${projectId}`, log_queries_probability: 1 }
  }

  /**
   * Reads what was logged since the last call.
   * @returns CPU time by project, ms; null if a ClickHouse keeps no log, or does not let its user read it
   * @throws StoreUnreachableError, StoreError
   */
  async readNew(shards: Shards): Promise<Map<string, number> | null> {
    // The first entry creates the table.
    if (!this.#isUsed) return new Map()
    const values = { process: this.#process, settled: this.#settledMs }
    try {
      const found = await shards.each(async ({ number, clickhouse }) => {
        const since = this.#last.get(number) ?? this.#since
        const rows = await clickhouse.rows<{ label: string; us: string; last: string }>(READ, { ...values, since })
        return rows.map((row) => ({ ...row, number }))
      })
      const sums = new Map<string, number>()
      for (const { label, us, last, number } of found.flat()) {
        const projectId = label.slice(this.#process.length)
        sums.set(projectId, (sums.get(projectId) ?? 0) + Number(us) / 1000)
        this.#last.set(number, Math.max(this.#last.get(number) ?? 0, Number(last)))
      }
      return sums
    } catch (error) {
      if (isStoreError(error, 'ACCESS_DENIED', 'UNKNOWN_TABLE')) return null
      throw error
    }
  }
}

const READ = `
  WITH fromUnixTimestamp64Micro({since:Int64}) AS since
  SELECT log_comment AS label,
    sum(ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds']) AS us,
    max(toUnixTimestamp64Micro(event_time_microseconds)) AS last
  FROM system.query_log
  WHERE event_date >= toDate(since) - 1 AND event_time >= toDateTime(since) AND event_time_microseconds > since
    AND event_time_microseconds <= now64(6) - toIntervalMillisecond({settled:UInt32})
    AND startsWith(log_comment, {process:String}) AND type != 'QueryStart'
  GROUP BY label`
