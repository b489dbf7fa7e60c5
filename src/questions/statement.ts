import { type ClickHouseSettings, type Parameters, QueryParameters } from '../clickhouse/parameters.js'
import type { Shards } from '../clickhouse/shards.js'
import { DAY_MS } from '../contract/durations.js'
import type { PageSettings } from '../contract/page-fields.js'
import type { ColumnSource } from '../store/fact-values.js'
import { encodeText } from '../store/json-sql.js'
import type { SessionDay } from '../store/session-facts.js'
import type { Buckets } from './time.js'

/** Which rows a statement reads from `event_facts`; it reads the events after `hi` from `events`. */
export interface FactsBounds {
  /** by shard, in the order of `shardNum()` */
  hi: readonly bigint[]
  /** whether there may be events after `hi`: a statement about one table is planned in half the time */
  hasLater: boolean
  /** by shard; null: of every step */
  step: readonly number[] | null
  /** finds the column of facts with these values */
  findColumn: (source: ColumnSource) => string | null
  /** the days of the project for which there are session facts; absent: none */
  findSessions?: () => readonly SessionDay[]
  /**
   * The keys that a SELECT in parentheses returned in an earlier statement; null: they are unknown, or too many. When
   * the query is built again, they may be known.
   */
  findChanged?: (query: Query) => readonly string[] | null
}

/** What the SQL of a question depends on, apart from the question itself. */
export interface QueryContext {
  projectId: string
  /** epoch ms */
  now: number
  shards: Pick<Shards, 'table' | 'areSeveral'>
  /** whether users of the project may have several names */
  hasAliases: boolean
  /**
   * whether aliases may lead to names that have become aliases themselves. Without it, a query that meets such an alias
   * fails with INFINITE_LOOP, but ClickHouse plans it much faster
   */
  hasChains?: boolean
  /**
   * whether to repair texts that ClickHouse's JSON parser rejects and, in breakdowns, arrays and objects with unusually
   * written numbers, and to look for ids of sessions that were used again days later. Without it, a query that meets one
   * of these fails with FUNCTION_THROW_IF_VALUE_IS_NON_ZERO, but ClickHouse plans it in half the time.
   */
  repairsTexts: boolean
  /**
   * whether the order of a user's simultaneous events, which is the order of their ids, may matter. Without it, a query
   * does not read ids, and fails with AMBIGUOUS_IDENTIFIER if its answer depends on them
   */
  hasTies?: boolean
  /**
   * whether a breakdown may have too many values, or users too many events, to be kept in memory at once. Without it, a
   * query with `isGreedy` is faster, and fails with TOO_MANY_ROWS or for lack of memory if there are that many
   */
  hasManyValues?: boolean
  /** absent or null: only `events` is read */
  facts?: FactsBounds | null
  /** the project's page views, and the places of their fields */
  pages: PageSettings
}

/** A query for ClickHouse. */
export interface Query {
  /** without a FORMAT */
  sql: string
  parameters: Parameters
  settings?: ClickHouseSettings
  /** whether it would need less memory with `hasManyValues` */
  isGreedy?: boolean
}

/** The parameters and settings of one statement. The methods return the placeholder of a value, so no value becomes SQL. */
export class Statement {
  readonly context: QueryContext
  readonly project: string
  readonly namesUsers: boolean
  readonly #fields = new QueryParameters()
  /** placeholders by type and value: a question repeats values, and ClickHouse accepts only 1000 parameters */
  readonly #known = new Map<string, string>()
  readonly #settings: ClickHouseSettings = {}

  /** @param options `namesUsers`: whether rows identify users by name instead of by hash; default: by hash */
  constructor(context: QueryContext, { namesUsers = false } = {}) {
    this.context = context
    this.namesUsers = namesUsers
    this.project = this.#fields.text(context.projectId)
  }

  get parameters(): Parameters {
    return this.#fields.parameters
  }

  /** The query, once all of its SQL is built. @param settings if no part of the SQL needs another value */
  query(sql: string, settings: ClickHouseSettings = {}): Query {
    return { sql, parameters: this.parameters, settings: { ...settings, ...this.#settings } }
  }

  /** Adds a setting that a part of the SQL needs. */
  set(settings: ClickHouseSettings): void {
    Object.assign(this.#settings, settings)
  }

  /** A text from the caller; one with an unpaired surrogate becomes the bytes that `decodeText` returns. */
  text(value: string): string {
    const isWhole = value.isWellFormed()
    const text = isWhole ? value : encodeText(value).toString('hex')
    const placeholder = this.#once('text', text, () => this.#fields.text(text))
    return isWhole ? placeholder : `unhex(${placeholder})`
  }

  /** An array of texts from the caller, which may have unpaired surrogates; see `text`. */
  anyTexts(values: readonly string[]): string {
    if (values.every((value) => value.isWellFormed())) return this.texts(values)
    return `arrayMap(digits -> unhex(digits), ${this.texts(values.map((value) => encodeText(value).toString('hex')))})`
  }

  texts(values: readonly string[]): string {
    return this.#once('texts', values, () => this.#fields.array([...values]))
  }

  number(value: number): string {
    return this.#once('number', String(value), () => this.#fields.number(value))
  }

  /** A non-negative integer, for example for LIMIT. */
  count(value: number): string {
    return this.#once('count', value, () => this.#fields.count(value))
  }

  /** A whole number of either sign. */
  integer(value: number): string {
    return `toInt32(${this.number(value)})`
  }

  numbers(values: readonly number[]): string {
    return this.#once('numbers', values.map(String), () => this.#fields.numbers(values))
  }

  /** Whole numbers, one for each shard. @param type that of ClickHouse */
  ofShard(values: readonly (number | bigint)[], type: 'UInt32' | 'UInt128'): string {
    const numbers = values.map((value) => `to${type}(${this.text(String(value))})`)
    return numbers.length === 1 ? (numbers[0] ?? '0') : `arrayElement([${numbers.join(', ')}], shardNum())`
  }

  #once(type: string, value: unknown, add: () => string): string {
    const key = JSON.stringify([type, value])
    const placeholder = this.#known.get(key) ?? add()
    this.#known.set(key, placeholder)
    return placeholder
  }

  /** The prefix GLOBAL for JOIN, and for IN with a subquery, if there are several shards; otherwise empty. */
  get global(): string {
    return this.context.shards.areSeveral ? 'GLOBAL ' : ''
  }
}

/** Days of a range that may be listed with their buckets: more than a hundred years. */
const MAX_LISTED_DAYS = 40_000

/** Whether every bucket consists of UTC days, which facts are sorted by. */
export function areDays({ starts }: Buckets): boolean {
  return starts.every((start) => start >= 0 && start % DAY_MS === 0)
}

/**
 * SQL for the index of the bucket that contains a UTC day of the range.
 * @param day SQL for a Date32
 * @param buckets that consist of UTC days
 */
export function findBucketOfDay(statement: Statement, day: string, { starts, numbers, buckets }: Buckets): string {
  const days = starts.map((start) => start / DAY_MS)
  const [first = 0, second] = days
  if (second === undefined) return 'toUInt32(0)'
  const end = Math.ceil((buckets.at(-1)?.to ?? 0) / DAY_MS)
  if (end - first > MAX_LISTED_DAYS) {
    return findBucketNumber(statement, `toInt32(${day}) * ${DAY_MS}.`, { starts, numbers, buckets })
  }
  const listed = days.flatMap((from, i) => Array<number>((days[i + 1] ?? end) - from).fill(numbers[i] ?? 0))
  return `CAST(${statement.numbers(listed)}, 'Array(UInt32)')[toInt32(${day}) - ${statement.integer(first - 1)}]`
}

/** SQL for the index of the bucket that contains an instant of the range. */
export function findBucketNumber(statement: Statement, instant: string, { starts, numbers }: Buckets): string {
  const [first = 0, second] = starts
  if (second === undefined) return 'toUInt32(0)'
  const width = second - first
  const isRegular = starts.every((start, i) => start === first + i * width && numbers[i] === i)
  if (isRegular) {
    const number = `floor((${instant} - ${statement.number(first)}) / ${statement.number(width)})`
    // The last bucket may be longer than the others.
    return `toUInt32(least(${number}, ${statement.number(starts.length - 1)}))`
  }
  const piece = `roundDown(${instant}, ${statement.numbers(starts)})`
  return `transform(${piece}, ${statement.numbers(starts)}, ${statement.numbers(numbers)}, 0)::UInt32`
}
