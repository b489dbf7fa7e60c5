import type { ClickHouseSettings } from '@clickhouse/client'

/**
 * Accepting events has priority. With this nice value, a thread of a query has a scheduling weight of 36, and what accepts
 * events on 2 cores about 3 × 1024. A thread costs more than its weight, because a thread that wakes waits for its time
 * slice: two questions with two threads each took 15 % of the events a second, one with one thread 7 %.
 */
export const NICE = 15
const SETTING = 'os_threads_nice_value_query'

interface Server {
  rows(query: string, parameters: { name: string }): Promise<unknown[]>
}

/** Holds queries of projects back behind everything else, where the server can do that. */
export class LowPriority {
  readonly #clickhouse: Server
  #settings: Promise<ClickHouseSettings> | undefined

  constructor(clickhouse: Server) {
    this.#clickhouse = clickhouse
  }

  /** Settings for a query; none where the server has no such setting. @throws if the server does not respond */
  async settings(): Promise<ClickHouseSettings> {
    this.#settings ??= this.#find().catch((error: unknown) => {
      this.#settings = undefined
      throw error
    })
    return await this.#settings
  }

  async #find(): Promise<ClickHouseSettings> {
    const found = await this.#clickhouse.rows('SELECT 1 FROM system.settings WHERE name = {name:String}', {
      name: SETTING,
    })
    return found.length > 0 ? ({ [SETTING]: NICE } as ClickHouseSettings) : {}
  }
}
