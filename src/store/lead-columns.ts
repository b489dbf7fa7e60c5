import type { ClickHouse } from '../clickhouse/client.js'
import { isTimeout, StoreError } from '../clickhouse/errors.js'
import { DELETE_LIMIT_MS } from './deleted-events.js'
import type { FactRange } from './fact-backlog.js'
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

/** Maximum number of properties of a project that get columns before any question asks for them. */
const MAX_GUESSED = 20
/** How many of the newest events, and how many of the next ones to copy, are sampled. */
const SAMPLED = 10_000
/** A property gets a column only if it has at least this share of the events of the most frequent property. */
const LEAST_SHARE = 0.01
/** Maximum mean length of values in bytes: a column of longer ones is not worth its disk space. */
const MAX_MEAN_LENGTH = 100

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
   * Adds columns for the most frequent properties of a project, as long as there are not too many columns.
   * @param range the events to copy next; the newest events are sampled as well
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

/**
 * The names of the outermost properties that most events of a project have, most frequent first. Objects are left out,
 * because questions ask for their members.
 */
async function findFrequentNames(clickhouse: ClickHouse, { projectId, lo, hi }: FactRange): Promise<string[]> {
  const id = 'toUInt128(event_id)'
  const project = 'project_id = {project:String}'
  const texts = (where: string, order: string) =>
    `(SELECT properties FROM events WHERE ${where} ORDER BY ${order} LIMIT ${SAMPLED})`
  const rows = await clickhouse.rows<{ name: string }>(
    `SELECT name FROM (
       SELECT member.1 AS name, count() AS events, avg(length(member.2)) AS size, countIf(startsWith(member.2, '{')) AS objects,
         max(events) OVER () AS most
       FROM (
         SELECT arrayJoin(JSONExtractKeysAndValuesRaw(properties)) AS member FROM (
           ${texts(project, `${id} DESC`)} UNION ALL
           ${texts(`${project} AND ${id} > {lo:UInt128} AND ${id} <= {hi:UInt128}`, id)}
         )
       )
       GROUP BY name
     )
     WHERE events >= ${LEAST_SHARE} * most AND size <= ${MAX_MEAN_LENGTH} AND objects * 2 < events
     ORDER BY events DESC, name LIMIT ${MAX_GUESSED}`,
    { project: projectId, lo: String(lo), hi: String(hi) },
    // Texts may be long.
    { max_threads: 1, max_block_size: '1024' },
    { limitMs: DELETE_LIMIT_MS },
  )
  return rows.map(({ name }) => name)
}
