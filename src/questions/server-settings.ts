import { orIfDenied } from '../clickhouse/errors.js'
import type { ClickHouseSettings } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'

export interface ServerSettingsOptions {
  shards: Shards
  /** memory limit of a question, bytes; it is lower if that is more than MEMORY_SHARE of the server's memory */
  memory: number
  /** how long the settings are remembered, ms; default: a minute */
  rememberedMs?: number | undefined
}

/**
 * Maximum bytes of a result, which this process holds in memory. A breakdown repeats its values in every bucket: 60
 * values of 200 KB over 30 days take 370 MB. Half a million points with names of 100 characters take half of this.
 */
const MAX_RESULT_BYTES = 128 * 1024 * 1024
/**
 * Maximum share of ClickHouse's memory for one question. With more, it could hit the limit of the whole server, which
 * looks as if other queries had used up the memory.
 */
const MEMORY_SHARE = 0.5
const REMEMBERED_MS = 60_000
/**
 * Rewrites of comparisons, GROUP BY, ORDER BY and LIMIT BY that our statements do not need. Trying them compares whole
 * expression trees, which takes a third of the time to plan paths or a breakdown by channel, and a quarter for funnels.
 * When expressions are merged across subqueries, columns that build upon each other in several steps are also computed
 * in one: a breakdown by source or channel takes a quarter longer. ClickHouse reorders joins once it knows their sizes
 * from an earlier run. For sessions by `page.channel` in a project with chains of aliases, planning then took minutes
 * and several GB, and no limit applied (26.7).
 */
export const NEEDLESS_REWRITES = [
  'optimize_and_compare_chain',
  'optimize_aggregators_of_group_by_keys',
  'optimize_group_by_function_keys',
  'optimize_injective_functions_in_group_by',
  'optimize_injective_functions_in_limit_by',
  'optimize_limit_by_function_keys',
  'optimize_redundant_functions_in_order_by',
  'optimize_truncate_order_by_after_group_by_keys',
  'query_plan_merge_expressions',
  'query_plan_optimize_join_order_limit',
]
/**
 * When ClickHouse pushes a filter down to the shards, it omits conditions with a lambda, even below NOT, so that the
 * remaining filter drops matching rows (25.1 up to 26.8; ClickHouse issue 113445). So filters of properties run on the
 * shard that merges the results.
 */
const OVER_SHARDS: ClickHouseSettings = { allow_push_predicate_ast_for_distributed_subqueries: 0 }

/** Settings that turn off NEEDLESS_REWRITES, as far as all shards have them. */
export async function findRewriteSettings(shards: Pick<Shards, 'each'>): Promise<ClickHouseSettings> {
  const found = await shards.each(({ clickhouse }) =>
    clickhouse.rows<{ name: string }>('SELECT name FROM system.settings WHERE name IN {names:Array(String)}', {
      names: NEEDLESS_REWRITES,
    }),
  )
  const known = found.map((rows) => new Set(rows.map(({ name }) => name)))
  const taken = NEEDLESS_REWRITES.filter((name) => known.every((names) => names.has(name)))
  return Object.fromEntries(taken.map((name) => [name, 0]))
}

/** The settings of every question that the server supports. It may be upgraded while the service runs. */
export class ServerSettings {
  readonly #options: ServerSettingsOptions
  #settings: Promise<ClickHouseSettings> | undefined
  /** when the settings were last read, `performance.now()` */
  #readAt = Number.NEGATIVE_INFINITY
  #memory: number

  constructor(options: ServerSettingsOptions) {
    this.#options = options
    this.#memory = options.memory
  }

  /** How much memory a question may use, as of the last `read`, bytes. */
  get memory(): number {
    return this.#memory
  }

  /** @throws StoreError if ClickHouse has never returned them */
  async read(): Promise<ClickHouseSettings> {
    const before = this.#settings
    const now = performance.now()
    if (!before || now - this.#readAt > (this.#options.rememberedMs ?? REMEMBERED_MS)) {
      this.#readAt = now
      this.#settings = this.#find().catch((error: unknown) => {
        if (before) return before
        this.#settings = undefined
        throw error
      })
    }
    return (await this.#settings) ?? {}
  }

  async #find(): Promise<ClickHouseSettings> {
    const { shards } = this.#options
    this.#memory = await this.#findMemory()
    return {
      max_memory_usage: String(this.#memory),
      max_result_bytes: String(MAX_RESULT_BYTES),
      result_overflow_mode: 'throw',
      output_format_json_escape_forward_slashes: 0,
      ...(shards.areSeveral && OVER_SHARDS),
      ...(await findRewriteSettings(shards)),
    }
  }

  async #findMemory(): Promise<number> {
    const { shards, memory } = this.#options
    const found = await shards.each(({ clickhouse }) =>
      orIfDenied(
        clickhouse.rows<{ bytes: string }>(
          "SELECT value AS bytes FROM system.server_settings WHERE name = 'max_server_memory_usage'",
        ),
        [],
      ),
    )
    const shares = found.flat().map(({ bytes }) => Math.floor(Number(bytes) * MEMORY_SHARE))
    return Math.min(memory, ...shares.filter((bytes) => bytes > 0))
  }
}
