import type { Readable } from 'node:stream'
import type { ClickHouse, ReadOptions } from './client.js'
import { isShardLost, isTimeout, NoSlotError, ShardUnreachableError, StoreUnreachableError } from './errors.js'
import type { ClickHouseSettings, Parameters } from './parameters.js'

/** A ClickHouse server, or several replicas, with its own tables. */
export interface Shard {
  /** position in CLICKHOUSE_URL, from 0 */
  number: number
  /** host:port, without the password */
  name: string
  clickhouse: ClickHouse
  /** URLs of its replicas with user, password and database, for the other shards */
  urls?: readonly string[]
}

/** Settings of queries over all shards. */
const OVER_SHARDS: ClickHouseSettings = {
  // A missing shard is always an error, whatever the profile of the ClickHouse user says.
  skip_unavailable_shards: 0,
  // A shard that is down is detected within a second, one that hangs after this many seconds without a byte.
  connect_timeout_with_failover_ms: 500,
  connections_with_failover_max_tries: '2',
  receive_timeout: 15,
  // While a query waits for the handshake, not even KILL can cancel it, and ClickHouse tries twice.
  handshake_timeout_ms: 5000,
  // Prefer the same replica of a shard as the service itself.
  load_balancing: 'in_order',
  use_hedged_requests: 0,
}

export interface ShardsOptions {
  /** whether errors name the shard; default: if there are several */
  isNamed?: boolean
  cluster?: string | undefined
}

/**
 * The store: one or more ClickHouse shards, each with the rows of its lanes. The first has the data that exists only
 * once, such as the keys. With one shard, every call goes directly to it.
 */
export class Shards implements Pick<ClickHouse, 'rows' | 'bytes'> {
  readonly all: readonly Shard[]
  /**
   * the cluster in the servers' configuration that they use to read from each other; default: the hosts of their URLs
   */
  readonly cluster: string | undefined
  /** whether errors name the shard */
  readonly #isNamed: boolean
  #next = 0

  /** @param all in the order of their numbers, at least one */
  constructor(all: readonly Shard[], { isNamed = all.length > 1, cluster }: ShardsOptions = {}) {
    this.all = all
    this.cluster = cluster
    this.#isNamed = isNamed
  }

  /** One ClickHouse as the whole store. */
  static of(clickhouse: ClickHouse, name = 'ClickHouse'): Shards {
    return new Shards([{ number: 0, name, clickhouse }])
  }

  /** The shard with the data that exists only once: keys, journals, layouts. */
  get first(): ClickHouse {
    return this.at(0).clickhouse
  }

  get areSeveral(): boolean {
    return this.all.length > 1
  }

  at(number: number): Shard {
    const shard = this.all[number]
    if (!shard) throw new RangeError(`there is no shard ${number}`)
    return shard
  }

  /** The store reduced to one shard. */
  only(number: number): Shards {
    return this.areSeveral ? new Shards([this.at(number)], { isNamed: true }) : this
  }

  /** The same store, with all queries and statements counted as the project's: `ReadOptions.project`. */
  for(project: string): Shards {
    const all = this.all.map((shard) => ({ ...shard, clickhouse: shard.clickhouse.for(project) }))
    return new Shards(all, { isNamed: this.#isNamed, cluster: this.cluster })
  }

  /** Operand of FROM: the rows of all shards. */
  table(name: string): string {
    return this.areSeveral ? `${name}_all` : name
  }

  /**
   * Like `ClickHouse.rows`, for the operands that `table` and `newestRows` return. Needs every shard.
   * @throws ShardUnreachableError that names the shard that is down
   */
  async rows<Row>(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    reading: ReadOptions = {},
  ): Promise<Row[]> {
    const shard = this.#any()
    return await this.#named(
      shard,
      shard.clickhouse.rows<Row>(query, parameters, this.#over(settings), this.#reading(reading)),
    )
  }

  /** Like `ClickHouse.bytes`, for the operands that `table` and `newestRows` return. @throws like `rows` */
  async bytes(
    query: string,
    parameters: Parameters = {},
    settings: ClickHouseSettings = {},
    reading: ReadOptions = {},
  ): Promise<Readable> {
    const shard = this.#any()
    return await this.#named(
      shard,
      shard.clickhouse.bytes(query, parameters, this.#over(settings), this.#reading(reading)),
    )
  }

  /**
   * Runs a task on every shard at the same time, and waits for all of them.
   * @returns the results in the order of the shards
   * @throws the error of the first shard that failed, which names it if there are several
   */
  async each<T>(run: (shard: Shard) => Promise<T>): Promise<T[]> {
    const results = await Promise.allSettled(this.all.map((shard) => this.on(shard, run)))
    return results.map((result) => {
      if (result.status === 'rejected') throw result.reason
      return result.value
    })
  }

  /** Runs a task on one shard. @throws like `each` */
  async on<T>(shard: Shard, run: (shard: Shard) => Promise<T>): Promise<T> {
    return await this.#named(shard, run(shard))
  }

  /** Runs a task on the shard with the data that exists only once. @throws like `each` */
  async onFirst<T>(run: (clickhouse: ClickHouse) => Promise<T>): Promise<T> {
    return await this.on(this.at(0), ({ clickhouse }) => run(clickhouse))
  }

  /** Adds up the counts of all shards. @throws like `each` */
  async count(run: (clickhouse: ClickHouse) => Promise<number>): Promise<number> {
    const counts = await this.each(({ clickhouse }) => run(clickhouse))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /**
   * Searches for something that exists on only one shard: on `home` first, then on the others.
   * @param look returns null if it does not find it
   * @throws like `each`, but only if it was not found and a shard could not be searched
   */
  async find<T>(home: number, look: (shard: Shard) => Promise<T | null>): Promise<T | null> {
    const first = this.all[home] ?? this.at(0)
    if (!this.areSeveral) return await this.on(first, look)
    const others = this.all.filter((shard) => shard !== first)
    let failure: unknown
    for (const shards of [[first], others]) {
      for (const result of await Promise.allSettled(shards.map((shard) => this.on(shard, look)))) {
        if (result.status === 'rejected') failure ??= result.reason
        else if (result.value !== null) return result.value
      }
    }
    if (failure !== undefined) throw failure
    return null
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map(({ clickhouse }) => clickhouse.close()))
  }

  /** The shard that merges the results of the next query; they take turns. */
  #any(): Shard {
    if (!this.areSeveral) return this.at(0)
    this.#next = (this.#next + 1) % this.all.length
    return this.at(this.#next)
  }

  #over(settings: ClickHouseSettings): ClickHouseSettings {
    return this.areSeveral ? { ...OVER_SHARDS, ...settings } : settings
  }

  /** After a client has disconnected, each shard may still be working on its part of the query. */
  #reading(reading: ReadOptions): ReadOptions {
    if (!this.areSeveral) return reading
    const end = async (id: string) => {
      await Promise.all(this.all.map(({ clickhouse }) => clickhouse.endQuery(id)))
    }
    return { ...reading, end }
  }

  async #named<T>(shard: Shard, result: Promise<T>): Promise<T> {
    if (!this.#isNamed) return await result
    return await result.catch(async (error: unknown) => {
      throw await this.#nameFault(shard, error)
    })
  }

  /** An error that names the unavailable shard if there is one; otherwise the given error. */
  async #nameFault(asked: Shard, error: unknown): Promise<unknown> {
    if (error instanceof ShardUnreachableError) return error
    if (!isTimeout(error) && error instanceof StoreUnreachableError) {
      // All slots are in use, so nothing was sent to a shard.
      return error.cause instanceof NoSlotError ? error : new ShardUnreachableError(asked, error)
    }
    if (!isTimeout(error) && !isShardLost(error)) return error
    const pings = await Promise.allSettled(this.all.map(({ clickhouse }) => clickhouse.ping()))
    const silent = this.all.find((_, i) => pings[i]?.status === 'rejected')
    return silent ? new ShardUnreachableError(silent, error) : error
  }
}
