import { StatementTooLargeError } from '../clickhouse/errors.js'
import { MAX_TIMESTAMP } from '../contract/limits.js'
import type { PageName } from '../contract/page-fields.js'
import type { FieldName, SessionEvents } from '../contract/questions.js'
import { hashName, hashSession, toDay } from '../store/fact-columns.js'
import { formatJson, formatNumber } from '../store/json-sql.js'
import { splitField } from './field-name.js'
import type { EventColumn, FieldRows, FieldSql, SessionTable } from './field-sql.js'
import { PageColumns } from './page-columns.js'
import { Paths } from './property-paths.js'
import type { QueryContext, Statement } from './statement.js'
import { joinProfiles, joinUserHashes, joinUsers, userHashSql, userSql } from './users-join.js'

/**
 * Maximum number of different properties of events and users in one statement. ClickHouse's time to analyze a statement
 * grows faster than their number, to minutes for a hundred, and neither a time limit nor a disconnect ends it.
 */
const MAX_PATHS = 32

/** The rows to read. */
export interface RowRange {
  /** epoch ms; absent: no lower bound */
  from?: number | undefined
  /** epoch ms, exclusive */
  to: number
  /** whether only events of sessions by id are needed */
  hasSession?: boolean
}

/** The columns of `events`, and of `event_facts`, that have another name there. */
const EVENT_COLUMNS: Partial<Record<EventColumn, string>> = {
  id: 'toUInt128(event_id) AS id',
  session: `${hashSession('session_id')} AS session`,
  json: 'properties AS json',
}
const FACT_COLUMNS: typeof EVENT_COLUMNS = { ...EVENT_COLUMNS, session: 'session' }

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
  #hasUserHash = false

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

  userHash(): string {
    this.#hasUserHash = true
    return 'person_hash'
  }

  /** Operand of FROM. @param narrow conditions on columns other than `properties` and the user */
  sql(range: RowRange, narrow: readonly string[], columns: readonly EventColumn[]): string {
    if (!this.#sessions || this.#sessionKey === '') return this.#read(range, narrow, columns)
    const events = this.#read(range, narrow, [...columns, ...this.#sessions.keyColumns])
    const fields = this.#sessions.names.map((name) => `s.${name} AS ${name}`).join(', ')
    return `(SELECT e.*, ${fields} FROM (SELECT *, ${this.#sessionKey} AS session_key FROM ${events}) AS e
      ASOF LEFT JOIN ${this.#sessions.sql()} AS s ON s.session_key = e.session_key AND s.session_start <= e.timestamp)`
  }

  /** Reads facts, and the events that are not among them yet. */
  #read(range: RowRange, narrow: readonly string[], columns: readonly EventColumn[]): string {
    const { statement } = this
    const { shards, facts } = statement.context
    const conditions = [`project_id = ${statement.project}`, ...selectRange(statement, range), ...narrow]
    const fromEvents = (more: readonly string[]) => {
      const own = hashName('e.distinct_id')
      const hasSession = range.hasSession ? [`session_id != ''`] : []
      const prewhere = `PREWHERE ${[...conditions, ...hasSession, ...more].join(' AND ')}`
      const taken = [...columns.map((name) => EVENT_COLUMNS[name] ?? name), ...this.#users(own)]
      return this.#select(taken, shards.table('events'), this.#joins(null, own), prewhere)
    }
    if (!facts || !this.#page.isEmpty || columns.includes('json')) return fromEvents([])
    const names = [...columns, ...this.#names].join(', ')
    const later = fromEvents([`toUInt128(event_id) > toUInt128(${statement.text(String(facts.hi))})`])
    return `(SELECT ${names} FROM ${this.#selectFacts(range, conditions, columns)} UNION ALL SELECT ${names} FROM ${later})`
  }

  #selectFacts(range: RowRange, narrow: readonly string[], columns: readonly EventColumn[]): string {
    const { statement } = this
    const { shards, facts } = statement.context
    const conditions = [...narrow, ...selectDays(statement, range)]
    if (range.hasSession) conditions.push('session != 0')
    if (typeof facts?.step === 'number') conditions.push(`step <= ${statement.count(facts.step)}`)
    const all = [
      ...columns.map((name) => FACT_COLUMNS[name] ?? name),
      ...this.#users('e.user'),
      ...this.#profile.names,
      ...this.#contexts,
    ]
    const from = `FROM ${shards.table('event_facts')} AS e ${this.#joins(null, 'e.user')} PREWHERE ${conditions.join(' AND ')}`
    if (this.#properties.isEmpty) return `(SELECT ${all.join(', ')} ${from})`
    const rows = `(SELECT ${[...all, ...this.#properties.factRaws(statement), 'repaired'].join(', ')} ${from})`
    return `(SELECT *, ${this.#properties.factTokens(statement).join(', ')} FROM ${rows})`
  }

  /** The columns of the user. @param own SQL for the hash of `distinct_id` */
  #users(own: string): string[] {
    const { statement } = this
    if (this.#needsName) {
      const hash = this.#hasUserHash ? [`${hashName('person')} AS person_hash`] : []
      return [`${userSql(statement)} AS person`, ...hash]
    }
    return this.#hasUserHash ? [`${userHashSql(statement, own)} AS person_hash`] : []
  }

  /** The columns that a row has apart from those of the table. */
  get #names(): string[] {
    return [
      ...(this.#needsName ? ['person'] : []),
      ...(this.#hasUserHash ? ['person_hash'] : []),
      ...this.#profile.names,
      ...[...this.#context].map((name) => `context_${name}`),
      ...this.#properties.names,
    ]
  }

  get #contexts(): string[] {
    return [...this.#context].map((name) => `${formatContext(name, name)} AS context_${name}`)
  }

  get #needsName(): boolean {
    return this.#hasUser || !this.#profile.isEmpty
  }

  #joinSessions(): SessionTable {
    const sessions = this.#sessions
    if (!sessions) throw new Error('these rows have no sessions')
    if (this.#sessionKey === '') this.#sessionKey = sessions.key(this)
    return sessions
  }

  /** Operand of FROM. @param events a subquery with few rows and the columns that are needed */
  of(events: string, columns: readonly string[]): string {
    const own = hashName('e.distinct_id')
    return this.#select([...columns, ...this.#users(own)], events, this.#joins(events, own), '')
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

  #joins(events: string | null, own: string): string {
    if (!this.#needsName) return this.#hasUserHash ? joinUserHashes(this.statement, own) : ''
    return joinUsers(this.statement, this.#profile.isEmpty ? null : this.#profile.select(this.statement), events)
  }

  #select(columns: readonly string[], events: string, joins: string, prewhere: string): string {
    const { statement } = this
    const properties = this.#properties
    const hasJson = !properties.isEmpty || !this.#page.isEmpty
    const all = [
      ...columns,
      ...this.#profile.names,
      ...this.#contexts,
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

function selectRange(statement: Statement, { from, to }: RowRange): string[] {
  const lower = from === undefined ? [] : [`timestamp >= ${statement.number(from)}`]
  return [...lower, `timestamp < ${statement.number(to)}`]
}

/** The days of a range, by which facts are sorted. */
function selectDays(statement: Statement, { from, to }: RowRange): string[] {
  const lower = from === undefined ? [] : [`day >= ${toDay(statement.number(Math.max(from, 0)))}`]
  return [...lower, `day <= ${toDay(statement.number(Math.min(Math.max(to, 0), MAX_TIMESTAMP)))}`]
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
