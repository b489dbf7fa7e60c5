import { StatementTooLargeError } from '../clickhouse/errors.js'
import type { PageName } from '../contract/page-fields.js'
import type { FieldName, SessionEvents } from '../contract/questions.js'
import { splitField } from './field-name.js'
import type { FieldRows, FieldSql, SessionTable } from './field-sql.js'
import { formatJson, formatNumber } from './json-sql.js'
import { PageColumns } from './page-columns.js'
import { Paths } from './property-paths.js'
import type { QueryContext, Statement } from './statement.js'
import { joinProfiles, joinUsers, userSql } from './users-join.js'

/**
 * Maximum number of different properties of events and users in one statement. ClickHouse's time to analyze a statement
 * grows faster than their number, to minutes for a hundred, and neither a time limit nor a disconnect ends it.
 */
const MAX_PATHS = 32

/**
 * The rows of a project's events with the columns that a question needs. Every property becomes a column of the
 * innermost SELECT, so that it is extracted only once, however often it is used.
 */
export class EventRows implements FieldRows {
  readonly statement: Statement
  readonly #properties = new Paths('p')
  readonly #profile = new Paths('u')
  readonly #page: PageColumns
  readonly #context = new Set<string>()
  readonly #sessions: SessionTable | undefined
  #sessionKey = ''
  #hasUser = false

  /** @param sessions needed for fields of the session */
  constructor(statement: Statement, sessions?: SessionTable) {
    this.statement = statement
    this.#page = new PageColumns(statement)
    this.#sessions = sessions
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
      case 'page':
        return { type: 'json', sql: this.#page.column(path[0] as PageName) }
      case 'context':
        this.#context.add(path[0] ?? '')
        return { type: 'json', sql: `context_${path[0]}` }
      case 'session':
        return { type: 'json', sql: this.#joinSessions().field(path) }
      default:
        return { type: 'json', sql: this.#properties.column(path) }
    }
  }

  sessionHas(events: SessionEvents): string {
    return this.#joinSessions().has(events)
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
    if (!this.#sessions || this.#sessionKey === '') {
      return this.#select(columns, asked.shards.table('events'), this.#joins(null), prewhere)
    }
    const all = [...columns, ...this.#sessions.keyColumns]
    const events = this.#select(all, asked.shards.table('events'), this.#joins(null), prewhere)
    const fields = this.#sessions.names.map((name) => `s.${name} AS ${name}`).join(', ')
    return `(SELECT e.*, ${fields} FROM (SELECT *, ${this.#sessionKey} AS session_key FROM ${events}) AS e
      ASOF LEFT JOIN ${this.#sessions.sql()} AS s ON s.session_key = e.session_key AND s.session_start <= e.timestamp)`
  }

  #joinSessions(): SessionTable {
    const sessions = this.#sessions
    if (!sessions) throw new Error('these rows have no sessions')
    if (this.#sessionKey === '') this.#sessionKey = sessions.key(this)
    return sessions
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
    const properties = this.#properties
    const hasJson = !properties.isEmpty || !this.#page.isEmpty
    const all = [
      ...columns,
      ...(this.#hasUser ? [`${userSql(statement)} AS person`] : []),
      ...this.#profile.names,
      ...[...this.#context].map((name) => `${formatContext(name, name)} AS context_${name}`),
      ...properties.raws(statement, 'properties'),
      ...this.#page.raws,
      ...(hasJson ? ['properties'] : []),
    ]
    const rows = `SELECT ${all.join(', ')} FROM ${events} AS e ${joins} ${prewhere}`
    if (!hasJson) return `(${rows})`
    if (properties.isEmpty) return this.#page.select(`(${rows})`)
    return this.#page.select(`(SELECT *, ${properties.tokens(statement, 'properties').join(', ')} FROM (${rows}))`)
  }
}

/** The token of a field of a context. @param column SQL for what is stored */
export function formatContext(name: string, column: string): string {
  return name === 'bot' ? `if(${column} = 1, 'true', '')` : `if(${column} = '', '', toJSONString(toString(${column})))`
}

/** The value of a field as JSON. */
export function formatFieldJson({ type, sql }: FieldSql, { repairsTexts }: Pick<QueryContext, 'repairsTexts'>): string {
  if (type === 'text') return `toJSONString(${sql})`
  return type === 'number' ? formatNumber(sql) : formatJson(sql, repairsTexts)
}
