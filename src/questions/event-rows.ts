import { StatementTooLargeError } from '../clickhouse/errors.js'
import { DAY_MS } from '../contract/durations.js'
import { splitField } from '../contract/filters.js'
import { MAX_TIMESTAMP } from '../contract/limits.js'
import type { PageName } from '../contract/page-fields.js'
import type { FieldName, SessionEvents } from '../contract/questions.js'
import { hashName, hashSession, toDay } from '../store/fact-columns.js'
import { emptyToUnset, failIf, formatJson, formatNumber } from '../store/json-sql.js'
import type { EventColumn, FieldRows, FieldSql, SessionTable } from './field-sql.js'
import { PageColumns } from './page-columns.js'
import { type KeptValues, Paths } from './property-paths.js'
import type { QueryContext, Statement } from './statement.js'
import { joinProfiles, joinUserHashes, joinUsers, userHashSql, userSql } from './users-join.js'

/**
 * Maximum number of different properties of events and users in one statement. ClickHouse's time to analyze a statement
 * grows faster than their number, to minutes for a hundred, and neither a time limit nor a disconnect ends it.
 */
const MAX_PATHS = 32
/** More rows than any store has. */
const MAX_ROWS = '1000000000000000'

/** The rows to read. */
export interface RowRange {
  /** epoch ms; absent: no lower bound */
  from?: number | undefined
  /** epoch ms, exclusive */
  to: number
  /** whether only events with a session id are needed; or a SELECT of the hashes of the needed ids */
  hasSession?: boolean | string
}

/** A table that rows are read from. */
interface Source {
  /** operand of FROM */
  table: string
  /** whether there are so few rows that only their profiles and sessions should be joined */
  areFew?: boolean
  /** SQL for columns that the table stores differently */
  columns: Partial<Record<string, string>>
  /** SQL for the hash of `distinct_id` */
  own: string
  kept?: KeptValues | null
}

/** ClickHouse reads 65409 rows at a time, or fewer with more than 1 MB. */
const LARGE_BLOCKS = { max_block_size: '131072', preferred_block_size_bytes: '0' }

/**
 * Lets two threads share some 80 000 events that are not facts yet. By default, ClickHouse reads up to 330 000 with one,
 * and reading their texts takes longer than planning.
 */
const SOON_CONCURRENT = {
  merge_tree_min_rows_for_concurrent_read: '40960',
  merge_tree_min_bytes_for_concurrent_read: '41943040',
}

const SESSION_OF_EVENT = hashSession('session_id')
const EVENTS: Omit<Source, 'table'> = {
  columns: {
    id: 'toUInt128(event_id) AS id',
    day: `${toDay('timestamp')} AS day`,
    session: `${SESSION_OF_EVENT} AS session`,
    json: 'properties AS json',
  } satisfies Partial<Record<EventColumn, string>>,
  own: hashName('e.distinct_id'),
}
const FACTS: typeof EVENTS = {
  columns: { ...EVENTS.columns, session: 'session', day: 'day' },
  own: 'e.user',
}

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
        return { type: 'json', sql: this.#page.column(path[0] as PageName), isScalar: true }
      case 'context':
        this.#context.add(path[0] ?? '')
        return readContext(path[0] ?? '', `context_${path[0]}`)
      case 'session':
        return this.#joinSessions().field(path)
      default:
        return { type: 'json', sql: this.#properties.column(path) }
    }
  }

  sessionHas(events: SessionEvents): string {
    return this.#joinSessions().has(events)
  }

  /** Whether facts have everything that a field of the page is computed from, so that no properties have to be read. */
  hasPage(name: PageName): boolean {
    const { facts } = this.statement.context
    const page = new PageColumns(this.statement)
    page.column(name)
    return !page.needsProperties(facts ? { find: facts.findColumn, isThere: true } : null)
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
    const project = `project_id = ${statement.project}`
    const selectEvents = (kept: KeptValues | null, more: readonly string[]) => {
      const conditions = [project, ...selectRange(statement, range), ...narrow]
      conditions.push(...selectSessions(range, `session_id != ''`, SESSION_OF_EVENT), ...more)
      return this.#selectRaw(columns, { ...EVENTS, table: shards.table('events'), kept }, conditions)
    }
    if (!facts) return this.#select(`(${this.#divide(selectEvents(null, []))})`, null)
    const conditions = [project, ...selectDays(statement, range), ...narrow]
    conditions.push(...selectSessions(range, 'session != 0', 'session'))
    if (facts.step !== null) conditions.push(`step <= ${statement.ofShard(facts.step, 'UInt32')}`)
    const kept = { find: facts.findColumn, isThere: true }
    const source = { ...FACTS, table: shards.table('event_facts'), kept }
    const copied = this.#selectRaw(columns, source, conditions)
    const isLater = `toUInt128(event_id) > ${statement.ofShard(facts.hi, 'UInt128')}`
    if (facts.hasLater && this.#hasJson) statement.set(SOON_CONCURRENT)
    const later = facts.hasLater ? ` UNION ALL ${selectEvents({ ...kept, isThere: false }, [isLater])}` : ''
    // Paths and hosts are computed once per distinct text of a block: with large blocks, fewer in total.
    if (!this.#page.isEmpty && !this.#needsProperties(kept)) statement.set(LARGE_BLOCKS)
    const rows = `(${this.#divide(`${copied}${later}`)})`
    const isRepaired = !this.#hasJson || statement.context.repairsTexts
    return this.#select(isRepaired ? rows : `(SELECT * FROM ${rows} WHERE ${failIf('refused')} = 0)`, kept)
  }

  /**
   * Keeps a condition on fields of the page above the SELECTs that compute them. ClickHouse would push it down to the
   * table, with each SELECT written out wherever the next one uses it: planning a filter by channel would take half a
   * minute. Nothing is pushed through a LIMIT with the setting.
   */
  #divide(rows: string): string {
    if (this.#page.isEmpty) return rows
    this.statement.set({ query_plan_filter_push_down: 0 })
    return `SELECT * FROM (${rows}) LIMIT ${MAX_ROWS}`
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
    return this.#select(`(${this.#selectRaw(columns, { ...EVENTS, table: events, areFew: true }, [])})`, null)
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

  #joins({ table, own, areFew = false }: Source): string {
    if (!this.#needsName) return this.#hasUserHash ? joinUserHashes(this.statement, own) : ''
    const profile = this.#profile.isEmpty ? null : this.#profile.select(this.statement)
    return joinUsers(this.statement, profile, areFew ? table : null)
  }

  /** SELECT of the columns to read from a source; `#select` computes the others from them. */
  #selectRaw(columns: readonly string[], source: Source, conditions: readonly string[]): string {
    const all = [
      ...columns.map((name) => source.columns[name] ?? name),
      ...this.#users(source.own),
      ...this.#profile.names,
      ...this.#contexts,
      ...this.#properties.raws(this.statement, 'properties', source.kept),
      ...this.#page.raws(source.kept ?? null),
      ...(this.#needsProperties(source.kept ?? null) ? ['properties'] : []),
      ...(this.#hasJson && source.kept
        ? [source.kept.isThere ? 'refused' : `${this.#properties.isRejected('properties')} AS refused`]
        : []),
    ]
    const prewhere = conditions.length > 0 ? `PREWHERE ${conditions.join(' AND ')}` : ''
    return `SELECT ${all.join(', ')} FROM ${source.table} AS e ${this.#joins(source)} ${prewhere}`
  }

  #select(rows: string, kept: KeptValues | null): string {
    const { statement } = this
    const properties = this.#properties
    if (properties.isEmpty) return this.#page.select(rows, { kept })
    const tokens = properties.tokens(statement, 'properties', kept).join(', ')
    return this.#page.select(`(SELECT *, ${tokens} FROM ${rows})`, { kept })
  }

  #needsProperties(kept: KeptValues | null): boolean {
    return !this.#properties.isEmpty || (!this.#page.isEmpty && this.#page.needsProperties(kept))
  }

  get #hasJson(): boolean {
    return !this.#properties.isEmpty || !this.#page.isEmpty
  }
}

/** SQL conditions for the times of events. */
export function selectRange(statement: Statement, { from, to }: RowRange): string[] {
  const lower = from === undefined ? [] : [`timestamp >= ${statement.number(from)}`]
  return [...lower, `timestamp < ${statement.number(to)}`]
}

/** @param hash SQL for the hash of the session's id */
function selectSessions({ hasSession = false }: RowRange, has: string, hash: string): string[] {
  if (hasSession === false) return []
  return hasSession === true ? [has] : [has, `${hash} IN ${hasSession}`]
}

/** A range of facts, which are sorted by day. Reading times takes twice as long, and whole days do not need them. */
function selectDays(statement: Statement, { from, to }: RowRange): string[] {
  const lower = from === undefined ? [] : [`day >= ${toDay(statement.number(Math.max(from, 0)))}`]
  if (from !== undefined && !isDay(from)) lower.push(`timestamp >= ${statement.number(from)}`)
  if (isDay(to)) return [...lower, `day < ${toDay(statement.number(to))}`]
  const last = toDay(statement.number(Math.min(Math.max(to, 0), MAX_TIMESTAMP)))
  return [...lower, `day <= ${last}`, `timestamp < ${statement.number(to)}`]
}

/** Whether a time, epoch ms, is the start of a UTC day that can have events. */
function isDay(time: number): boolean {
  return time % DAY_MS === 0 && time >= 0 && time <= MAX_TIMESTAMP
}

/** The column of a field of a context. @param stored SQL for the stored value: a text is LowCardinality */
export function formatContext(name: string, stored: string): string {
  // A function of one column with a dictionary is computed for the values in it.
  return name === 'bot' ? stored : emptyToUnset(`toJSONString(${stored})`)
}

/** A field of a context. @param column of `formatContext` */
export function readContext(name: string, column: string): FieldSql & { type: 'json' } {
  const flag = `${column} = 1`
  return name === 'bot'
    ? { type: 'json', sql: `if(${flag}, 'true', '')`, isScalar: true, flag }
    : { type: 'json', sql: column, isScalar: true }
}

/** The value of a field as JSON. */
export function formatFieldJson(field: FieldSql, { repairsTexts }: Pick<QueryContext, 'repairsTexts'>): string {
  const { type, sql } = field
  if (type === 'text') return `toJSONString(${sql})`
  if (type === 'number') return formatNumber(sql)
  return field.isScalar ? `if(${sql} = '', 'null', ${sql})` : formatJson(sql, repairsTexts)
}
