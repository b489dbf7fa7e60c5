import { StatementTooLargeError } from '../clickhouse/errors.js'
import type { FieldName } from '../contract/questions.js'
import { splitField } from './field-name.js'
import { failIf, formatJson, formatNumber, markName, repairText, unmarkToken } from './json-sql.js'
import type { QueryContext, Statement } from './statement.js'
import { joinProfiles, joinUsers, userSql } from './users-join.js'

/**
 * Maximum number of different properties of events and users in one statement. ClickHouse's time to analyze a statement
 * grows faster than their number, to minutes for a hundred, and neither a time limit nor a disconnect ends it.
 */
const MAX_PATHS = 32

/** A field of an event as SQL, and its type in comparisons. */
export type FieldSql =
  /** a text */
  | { type: 'text'; sql: string }
  /** a number */
  | { type: 'number'; sql: string }
  /** a token of any JSON value */
  | { type: 'json'; sql: string }

/**
 * The rows of a project's events with the columns that a question needs. Every property becomes a column of the
 * innermost SELECT, so that it is extracted only once, however often it is used.
 */
export class EventRows {
  readonly statement: Statement
  readonly #properties = new Paths('p')
  readonly #profile = new Paths('u')
  #hasUser = false

  constructor(statement: Statement) {
    this.statement = statement
  }

  /** @throws StatementTooLargeError if there are more than MAX_PATHS properties */
  field(name: FieldName): FieldSql {
    const found = this.#resolveField(name)
    if (this.#properties.size + this.#profile.size <= MAX_PATHS) return found
    throw new StatementTooLargeError(`there are more than ${MAX_PATHS} different properties`)
  }

  #resolveField(name: FieldName): FieldSql {
    const [source, ...path] = splitField(name)
    switch (source) {
      case 'event':
      case 'distinct_id':
        return { type: 'text', sql: source }
      case 'timestamp':
        return { type: 'number', sql: 'timestamp' }
      case 'user':
        this.#hasUser = true
        return { type: 'json', sql: this.#profile.column(path) }
      default:
        return { type: 'json', sql: this.#properties.column(path) }
    }
  }

  /** The column of the user, the same for all aliases. */
  user(): string {
    this.#hasUser = true
    return 'person'
  }

  /** Operand of FROM. @param narrow conditions on columns other than `properties` and the user */
  sql(narrow: readonly string[], columns: readonly string[]): string {
    const { context: asked, project } = this.statement
    const prewhere = `PREWHERE ${[`project_id = ${project}`, ...narrow].join(' AND ')}`
    return this.#select(columns, asked.shards.table('events'), this.#joins(null), prewhere)
  }

  /** Operand of FROM. @param events a subquery with few rows and the columns that are needed */
  of(events: string, columns: readonly string[]): string {
    return this.#select(columns, events, this.#joins(events), '')
  }

  /**
   * Operand of FROM, for filters of users.
   * @param users a subquery in which each user is one row, with the name as `distinct_id`
   * @param areAll whether most users of the project are among them
   */
  ofUsers(users: string, columns: readonly string[], areAll: boolean): string {
    if (this.#profile.isEmpty) return users
    const profile = this.#profile.select(this.statement)
    const names = areAll ? null : `SELECT distinct_id FROM ${users}`
    const all = [...columns, ...this.#profile.names]
    return `(SELECT ${all.join(', ')} FROM ${users} AS e ${joinProfiles(this.statement, profile, 'e.distinct_id', names)})`
  }

  #joins(events: string | null): string {
    if (!this.#hasUser) return ''
    return joinUsers(this.statement, this.#profile.isEmpty ? null : this.#profile.select(this.statement), events)
  }

  #select(columns: readonly string[], events: string, joins: string, prewhere: string): string {
    const { statement } = this
    const all = [
      ...columns,
      ...(this.#hasUser ? [`${userSql(statement)} AS person`] : []),
      ...this.#profile.names,
      ...this.#properties.raws(statement, 'properties'),
      ...(this.#properties.isEmpty ? [] : ['properties']),
    ]
    const rows = `SELECT ${all.join(', ')} FROM ${events} AS e ${joins} ${prewhere}`
    return this.#properties.isEmpty
      ? `(${rows})`
      : `(SELECT *, ${this.#properties.tokens(statement, 'properties').join(', ')} FROM (${rows}))`
  }
}

/** The paths into one JSON column that a question uses, each with a column name. */
class Paths {
  readonly #prefix: string
  readonly #columns = new Map<string, { name: string; path: string[] }>()

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  get size(): number {
    return this.#columns.size
  }

  get isEmpty(): boolean {
    return this.size === 0
  }

  get names(): string[] {
    return [...this.#columns.values()].map(({ name }) => name)
  }

  column(path: string[]): string {
    const key = JSON.stringify(path)
    const known = this.#columns.get(key)
    if (known) return known.name
    const name = `${this.#prefix}${this.#columns.size}`
    this.#columns.set(key, { name, path })
    return name
  }

  /** Columns with the raw results of the parser. */
  raws(statement: Statement, json: string): string[] {
    return this.#each(({ name, path }) => `JSONExtractRaw(${json}, ${toKeys(statement, path)}) AS raw_${name}`)
  }

  /**
   * Columns with the tokens, including those of texts that the parser rejects. The repaired text is a column of its
   * own, because ClickHouse would compute a shared expression for every row. Without repair, every token depends on the
   * check that fails for a rejected text, so that such a row is never evaluated.
   */
  tokens(statement: Statement, json: string): string[] {
    const isRefused = [...this.#each(({ name }) => `raw_${name} = ''`), `NOT isValidJSON(${json})`].join(' AND ')
    if (!statement.context.repairsTexts) {
      const taken = this.#each(({ name }) => `if(is_refused OR raw_${name} = 'null', '', raw_${name}) AS ${name}`)
      return [`${failIf(isRefused)} AS is_refused`, ...taken]
    }
    const tokens = this.#each(({ name, path }) => {
      const found = unmarkToken(`JSONExtractRaw(repaired, ${toKeys(statement, path)})`)
      return `multiIf(is_refused, replaceRegexpOne(${found}, '^null$', ''), raw_${name} = 'null', '', raw_${name}) AS ${name}`
    })
    return [`${isRefused} AS is_refused`, `if(is_refused, ${repairText(json)}, '') AS repaired`, ...tokens]
  }

  /** For a subquery over profiles, which needs only tokens. */
  select(statement: Statement): { raws: string[]; tokens: string[]; names: string[] } {
    return { raws: this.raws(statement, 'properties'), tokens: this.tokens(statement, 'properties'), names: this.names }
  }

  #each(of: (column: { name: string; path: string[] }) => string): string[] {
    return [...this.#columns.values()].map(of)
  }
}

function toKeys(statement: Statement, path: string[]): string {
  return path.map((name) => statement.text(markName(name))).join(', ')
}

/** The value of a field as JSON. */
export function formatFieldJson({ type, sql }: FieldSql, { repairsTexts }: Pick<QueryContext, 'repairsTexts'>): string {
  if (type === 'text') return `toJSONString(${sql})`
  return type === 'number' ? formatNumber(sql) : formatJson(sql, repairsTexts)
}
