import type { ClickHouse } from '../clickhouse/client.js'
import { isTimeout, StoreError } from '../clickhouse/errors.js'
import type { FactRange } from './fact-backlog.js'
import { findFrequentNames } from './fact-guesses.js'
import {
  addValueColumns,
  type ColumnSource,
  completeColumn,
  dropValueColumns,
  findUnusedColumn,
  listValueColumns,
  MAX_VALUE_COLUMNS,
  mayHaveColumn,
  nameValueColumn,
  noteColumnsUsed,
  type ValueColumn,
} from './fact-values.js'

/** The value columns of one shard's facts, which only their leader adds and drops. */
export class LeadColumns {
  readonly #clickhouse: ClickHouse
  readonly #assertLeads: () => Promise<void>
  #columns: ReadonlyMap<string, ValueColumn> = new Map()

  /** @param assertLeads throws if another process leads */
  constructor(clickhouse: ClickHouse, assertLeads: () => Promise<void>) {
    this.#clickhouse = clickhouse
    this.#assertLeads = assertLeads
  }

  /** The columns as of the last `load` or change. */
  all(): Iterable<ValueColumn> {
    return this.#columns.values()
  }

  async load(): Promise<void> {
    this.#columns = await listValueColumns(this.#clickhouse)
  }

  /** Drops all columns. */
  async drop(): Promise<void> {
    await dropValueColumns(this.#clickhouse, [...this.#columns.keys()])
    await this.load()
  }

  /**
   * Adds a column for values, or completes an existing one. If there are too many, the new one replaces the column that
   * has been unused for the longest time. If ClickHouse fails to add it, only speed is lost, and questions that stay
   * slow request the column again.
   */
  async tryToAdd(source: ColumnSource): Promise<void> {
    try {
      await this.#add(source)
    } catch (error) {
      if (!(error instanceof StoreError) && !isTimeout(error)) throw error
      await this.load()
    }
  }

  async #add(source: ColumnSource): Promise<void> {
    const name = nameValueColumn(source)
    await this.#assertLeads()
    if (this.#columns.has(name)) return await completeColumn(this.#clickhouse, name)
    if (this.#columns.size >= MAX_VALUE_COLUMNS) {
      const unused = await findUnusedColumn(this.#clickhouse)
      if (unused === null) return
      await dropValueColumns(this.#clickhouse, [unused])
    }
    await addValueColumns(this.#clickhouse, [source])
    await noteColumnsUsed(this.#clickhouse, [name])
    await this.load()
  }

  /**
   * Adds columns for the most frequent properties of a project, as long as there are not too many columns. @param range
   * the events to copy next; the newest events are sampled as well
   */
  async guess(range: FactRange): Promise<void> {
    const room = MAX_VALUE_COLUMNS - this.#columns.size
    if (room <= 0) return
    const frequent = await findFrequentNames(this.#clickhouse, range)
    const paths = frequent.map((name) => [name]).filter(mayHaveColumn)
    const missing = paths.filter((path) => !this.#columns.has(nameValueColumn(path))).slice(0, room)
    if (missing.length === 0) return
    await this.#assertLeads()
    // Before its first events are copied, the project has no facts to fill, and filling those of other projects may
    // take longer than copying.
    await addValueColumns(this.#clickhouse, missing, { isFilled: range.lo > 0n })
    await this.load()
  }
}
