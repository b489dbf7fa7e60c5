import { CONTEXT_TEXTS } from '../contract/context.js'
import { DAY_MS, parseDuration } from '../contract/durations.js'
import { formatExactJson } from '../contract/exact-json.js'
import { CONTEXT_NAMES, type PageName } from '../contract/page-fields.js'
import { SESSION } from '../contract/question-schemas.js'
import type { SessionEvents, SessionsDefinition } from '../contract/questions.js'
import { hashName } from '../store/fact-columns.js'
import { formatNumber } from '../store/json-sql.js'
import { newestRows } from '../store/newest-rows.js'
import { EventRows, formatContext, formatFieldJson, readContext } from './event-rows.js'
import {
  type EventColumn,
  type FieldRows,
  type FieldSql,
  isScalarOfSession,
  type SESSION_NUMBERS,
  type SessionTable,
} from './field-sql.js'
import { buildCondition } from './filter.js'
import { isPageView, PageColumns } from './page-columns.js'
import { Paths } from './property-paths.js'
import {
  ENTRY_FIELDS,
  EXIT_FIELDS,
  findPageColumn,
  groupNames,
  hadEvent,
  SessionFacts,
  type SessionRange,
} from './session-facts.js'
import type { Statement } from './statement.js'
import { joinAliases, NOBODY_HASH, userHashSql, userSql } from './users-join.js'

/** Which sessions a question is about. */
export interface SessionsScope extends SessionRange {
  definition: SessionsDefinition
  timezone: string
}

/** A column of the sessions. */
interface SessionColumn {
  name: string
  sql: string
  /** SQL for the column in `session_facts`; null if the table lacks it */
  fact: string | null
}

/** A column of the moments of a session, which are its events and the start of the session of the calls. */
interface MomentColumn {
  name: string
  ofEvent: string
  ofCall: string
}

/**
 * The events of a session whose fields can be used, each with the aggregate function and the condition that find it.
 */
const CHOSEN = {
  first: ['argMinIf', 'is_event'],
  last: ['argMaxIf', 'is_event'],
  entry: ['argMinIf', 'is_page'],
  exit: ['argMaxIf', 'is_page'],
} as const
type Chosen = keyof typeof CHOSEN

/** Whether the event is a page view. */
function isOfPageViews(chosen: Chosen): boolean {
  return CHOSEN[chosen][1] === 'is_page'
}

/** Page fields of one event of a session that are computed from its properties, once for each session. */
interface ChosenPage {
  fields: PageColumns
  /** columns of the session by the names of the fields */
  names: Map<PageName, string>
}

/**
 * The sessions of a question: a row for each, with a column for each field that the question uses. The rows of events
 * and calls are grouped by a hash (of the session's id, or of the user) and by the number of cuts before the event.
 * Sessions by id rarely have to be cut, so the query first runs without looking for cuts, and fails if a session is too
 * long, as it does for a text that needs repair.
 */
export class Sessions implements SessionTable {
  readonly scope: SessionsScope
  readonly #statement: Statement
  readonly #events: EventRows
  readonly #calls = new Paths('q')
  readonly #moments: MomentColumn[] = []
  /** the columns of a session by a key that says what they contain */
  readonly #columns = new Map<string, SessionColumn>()
  readonly #pages = new Map<Chosen, ChosenPage>()
  #hasContext = false
  #hasUser = false
  /** SELECT of the keys of the sessions to group; null: all */
  #only: string | null = null
  /** whether sessions that are too long are cut; if not, they make the query fail */
  #isCut = true

  constructor(statement: Statement, scope: SessionsScope) {
    this.#statement = statement
    this.scope = scope
    this.#events = new EventRows(statement)
  }

  get names(): string[] {
    const ofPages = [...this.#pages.values()].flatMap(({ names }) => [...names.values()])
    return [...[...this.#columns.values()].map(({ name }) => name), ...ofPages]
  }

  /** A field of the session; no value without one. @param path what follows `session` */
  field([name = '', ...path]: string[]): FieldSql & { type: 'json' } {
    const counted = Object.hasOwn(NUMBERS, name) ? NUMBERS[name as keyof typeof NUMBERS] : null
    if (counted) {
      // Nullable, because no session is joined to an event without one.
      const number = this.#column(name, () => `toNullable(${counted.grouped})`, `toNullable(${counted.fact})`)
      const token = `if(isNull(${number}), '', ${formatNumber(`assumeNotNull(${number})`)})`
      return { type: 'json', sql: token, isScalar: true, number }
    }
    return { type: 'json', sql: this.#token([name, ...path]), isScalar: isScalarOfSession([name, ...path]) }
  }

  /** The column with the token of a field that is not a number. */
  #token([name = '', ...path]: string[]): string {
    switch (name) {
      case 'first':
      case 'last':
      case 'entry':
      case 'exit': {
        if (path[0] === 'page' && !this.#isOfEvents(path[1] as PageName)) return this.#page(name, path[1] as PageName)
        const [find, condition] = CHOSEN[name]
        return this.#column(
          `${name} ${JSON.stringify(path)}`,
          () => `${find}(${this.#pick(path)}, place, ${condition})`,
          path[0] === 'page' ? findPageColumn(name, path[1] as PageName) : null,
        )
      }
      case 'properties':
        return this.#column(`properties ${JSON.stringify(path)}`, () => {
          const column = this.#calls.column(path)
          return `max(${this.#moment(column, `''`, column)})`
        })
      case 'state':
        return this.#column(name, () => `max(${this.#moment('call_state', `''`, 'toJSONString(state)')})`)
      case 'duration': {
        const duration = 'ifNull(duration, toFloat64(updated_at - started_at) / 1000)'
        return this.#column(name, () => `max(${this.#moment('call_duration', `''`, formatNumber(duration))})`)
      }
      case 'id':
        return this.#column(
          name,
          () => (this.#isById ? 'toJSONString(any(session_id))' : `any('')`),
          'toJSONString(session_id)',
        )
      default:
        return this.#column(name, () => BOUNCED.grouped, BOUNCED.fact)
    }
  }

  /** A field of a session's context: of the context of the calls, or else of the first event that has a context. */
  context(name: string): FieldSql {
    const build = () => {
      const found = this.#findContext(name)
      return formatContext(name, name === 'bot' ? found : `toLowCardinality(${found})`)
    }
    return readContext(name, this.#column(`context ${name}`, build, formatContext(name, name)))
  }

  #findContext(name: string): string {
    this.#hasContext = true
    const value = this.#moment(`sent_${name}`, name, name)
    return `argMinIf(${value}, place, ${this.#moment('has_context', HAS_CONTEXT, HAS_CONTEXT)})`
  }

  /** The column that says whether a session has such an event. */
  has({ event, where }: SessionEvents): string {
    const names = event === '*' ? null : [event].flat()
    const fact = where || event === SESSION ? null : hadEvent(this.#statement, names)
    const build = () => {
      const context = { rows: this.#events, timezone: this.scope.timezone }
      // The name alone stands for sessions, and no session is an event of a session.
      if (event === SESSION) return 'toUInt8(0)'
      const tests = event === '*' ? ['1'] : [`event IN ${this.#statement.texts([event].flat())}`]
      if (where) tests.push(buildCondition(context, where))
      const name = this.#moment(`is_had${this.#moments.length}`, `toUInt8(${tests.join(' AND ')})`, 'toUInt8(0)')
      return `max(${name})`
    }
    return this.#column(`has ${formatExactJson([event, where ?? null])}`, build, fact)
  }

  /** The column with a session's user. */
  user(): string {
    this.#hasUser = true
    const build = () => `argMax(${this.#moment('person', this.#events.user(), 'person')}, place)`
    return this.#column(USER, build, userSql(this.#statement))
  }

  /** The column with the hash of a session's user. */
  userHash(): string {
    this.#hasUser = true
    const hash = () => this.#moment('person_hash', this.#events.userHash(), hashName('person'))
    // Overwritten if the name is joined, too.
    return this.#column(USER_HASH, () => `argMax(${hash()}, place)`, userHashSql(this.#statement, 'e.user'))
  }

  /**
   * SQL for the key of the session of an event row that has the columns `timestamp`, `session_id` and, by gap, those of
   * the filter; 0 for an event without a session.
   */
  key(rows: FieldRows): string {
    return `if(${this.#belongs(rows)}, ${this.#hash(rows)}, 0)`
  }

  /** The columns that `key` needs from the table of events. */
  get keyColumns(): EventColumn[] {
    return this.#isById ? ['session'] : []
  }

  /** Operand of FROM. Columns: `session_key`, `session_start` (epoch ms), `session_order` and those of the fields. */
  sql(): string {
    const columns = this.#findFacts()
    const facts = columns && SessionFacts.find(this.#statement, this.scope)
    if (!facts) return this.#select()
    const user = this.#columns.has(USER) ? 'name' : this.#hasUser ? 'hash' : null
    const others = facts.selectOthers(columns, user)
    this.#only = facts.changed
    if (this.#only === null) return `(${others})`
    const names = columns.map(({ name }) => name).join(', ')
    return `(SELECT ${names} FROM ${this.#select()} UNION ALL ${others})`
  }

  /** The columns as read from session facts; null if any column is missing there. */
  #findFacts(): { name: string; sql: string }[] | null {
    if (!this.#isById) return null
    const isNamed = this.#columns.has(USER)
    const ofSession = [
      { name: 'session_key', sql: 'key' },
      { name: 'session_start', sql: 'start' },
      { name: 'session_order', sql: 'toUInt128(place)' },
    ]
    const ofPages = [...this.#pages].flatMap(([chosen, { names }]) =>
      Array.from(names, ([field, name]) => ({ name, fact: findPageColumn(chosen, field) })),
    )
    const all = [...this.#columns]
      .map(([key, { name, fact }]) => ({
        name,
        fact: key === USER_HASH && isNamed ? hashName(userSql(this.#statement)) : fact,
      }))
      .concat(ofPages)
    const found = all.flatMap(({ name, fact }) => (fact === null ? [] : [{ name, sql: fact }]))
    return found.length < all.length ? null : [...ofSession, ...found]
  }

  /**
   * SELECT of the rows of `session_facts` for the UTC days of [from, to), epoch ms, without the columns for the project
   * and the fill. Sessions that every question has to group itself (irregular ones) have a row for each day that they
   * touch, with nothing but their key: a row is removed with the events around its day, and these sessions may have
   * others.
   * @param scope reaches from a day before `from` to two days after `to`
   */
  selectFacts({ from, to }: { from: number; to: number }): string {
    this.#isCut = false
    this.#only = this.#selectKeys({ from, to })
    const columns = this.#nameFacts()
    const span = this.#addFact('span', 'max(at) - min(at)')
    const { names, areMany } = groupNames(this.#moment('name', 'event', `''`), 'is_event')
    const all = [
      ['start', 'session_start'],
      ['place', 'toUInt64(session_order)'],
      ...columns,
      ['names', this.#addFact('names', names)],
    ] as const
    const isIrregular = `${span} > ${DAY_MS} OR ${this.#addFact('many', areMany)}`
    const first = `floor(session_start / ${DAY_MS})`
    const last = `if(is_irregular, floor((session_start + ${span}) / ${DAY_MS}), ${first})`
    const days = `range(toInt32(greatest(${first}, ${from / DAY_MS})), toInt32(least(${last}, ${to / DAY_MS - 1})) + 1)`
    const rows = `(SELECT *, ${isIrregular} AS is_irregular FROM ${this.#select()})`
    const list = all.map(
      ([name, column]) => `if(is_irregular, defaultValueOfArgumentType(${column}), ${column}) AS ${name}`,
    )
    return `SELECT addDays(toDate32('1970-01-01'), arrayJoin(${days})) AS day, session_key AS key, ${list.join(', ')},
      is_irregular FROM ${rows}`
  }

  /** SELECT of the keys of all sessions that have an event or a call on these days. */
  #selectKeys({ from, to }: { from: number; to: number }): string {
    const { context, project } = this.#statement
    const rows = this.#events.sql({ from, to, hasSession: true }, [], ['session'])
    const started = `started_at >= ${this.#statement.number(from)} AND started_at < ${this.#statement.number(to)}`
    // Old versions of calls, and deleted calls, only add keys.
    const calls = `SELECT ${hashName('session_id')} FROM ${context.shards.table('sessions')} WHERE project_id = ${project} AND ${started}`
    return `(SELECT session FROM ${rows} UNION ALL ${calls})`
  }

  /** The columns of `session_facts`, each with the column that has its value. */
  #nameFacts(): (readonly [string, string])[] {
    const page = (chosen: 'entry' | 'exit', fields: readonly PageName[]) =>
      fields.map((field) => [`${chosen}_${field}`, this.#token([chosen, 'page', field])] as const)
    const user = this.user()
    return [
      ['until', this.#addFact('until', 'max(until)')],
      ['session_id', this.#addFact('id', 'any(session_id)')],
      ['events', this.#addFact('events', 'toUInt32(sum(is_event))')],
      ['pages', this.#addFact('pages', 'toUInt32(sum(is_page))')],
      ['distinct_id', user],
      ['user', hashName(user)],
      ['caller', this.#addFact('caller', `max(${this.#moment('caller', 'toUInt64(0)', hashName('distinct_id'))})`)],
      ...CONTEXT_NAMES.map((name) => [name, this.#addFact(name, this.#findContext(name))] as const),
      ...page('entry', ENTRY_FIELDS),
      ...page('exit', EXIT_FIELDS),
    ]
  }

  #addFact(name: string, sql: string): string {
    return this.#column(`fact ${name}`, () => sql)
  }

  /** Operand of FROM: the sessions, grouped from their events and calls. */
  #select(): string {
    const pages = [...this.#pages]
    const known = [
      'session_key',
      'session_start',
      'session_order',
      ...[...this.#columns.values()].map(({ name }) => name),
    ]
    return pages.reduce((rows, [chosen, page], i) => {
      const left = pages.slice(i + 1).flatMap(([other]) => [`${other}_json`, `${other}_is_page`])
      const from = selectPage(rows, chosen, page)
      const columns = [...page.names].map(([name, column]) => `page_${name} AS ${column}`)
      const sql = `(SELECT ${[...known, ...columns, ...left].join(', ')} FROM ${from})`
      known.push(...page.names.values())
      return sql
    }, this.#selectSessions())
  }

  /** Operand of FROM: the sessions with the properties of the events whose page fields are needed. */
  #selectSessions(): string {
    // This comes first, because it adds columns to the moments.
    const pages = [...this.#pages.keys()].flatMap((chosen) => this.#pickPage(chosen))
    const moments = this.#selectMoments()
    // The limit is for the values of a breakdown, not for sessions.
    this.#statement.set({ max_rows_to_group_by: '0' })
    const columns = [...[...this.#columns.values()].map(({ name, sql }) => `${sql} AS ${name}`), ...pages]
    const order = this.#isById
      ? `toUInt128(reinterpretAsUInt64(reverse(substring(MD5(any(session_id)), 1, 8))))`
      : 'toUInt128(0)'
    const all = [`${order} AS session_order`, ...columns]
    if (!this.#isCut)
      return `(SELECT key AS session_key, min(at) AS session_start, ${all.join(', ')} FROM ${moments} GROUP BY key)`
    if (this.#isById && !this.#statement.context.repairsTexts) {
      // The check is a part of `session_start`, so that it is evaluated.
      const isWhole = `throwIf(max(at) - min(at) > ${DAY_MS}, 'a session may have to be cut')`
      return `(SELECT key AS session_key, min(at) + ${isWhole} AS session_start, ${all.join(', ')} FROM ${moments} GROUP BY key)`
    }
    return `(SELECT moments.key AS session_key, min(at) AS session_start, ${all.join(', ')}
      FROM ${moments} AS moments ANY LEFT JOIN ${this.#selectCuts()} AS cuts ON cuts.key = moments.key
      GROUP BY moments.key, arrayCount(start -> start <= at, cuts.starts))`
  }

  /** Columns with the properties of an event, empty without one, and whether it is a page view. */
  #pickPage(chosen: Chosen): string[] {
    const [find, condition] = CHOSEN[chosen]
    const pick = (column: string) => `${find}(${column}, place, ${condition})`
    const isPage = isOfPageViews(chosen) ? 'max(is_page)' : pick('is_page')
    return [`${pick(this.#moment('json', 'json', `''`))} AS ${chosen}_json`, `${isPage} AS ${chosen}_is_page`]
  }

  /**
   * Whether a page field is computed for each event. Finding a channel takes longer than reading the properties, so
   * that is done once per session.
   */
  #isOfEvents(name: PageName): boolean {
    return name !== 'channel' && this.#events.hasPage(name)
  }

  get #isById(): boolean {
    return this.scope.definition === 'id'
  }

  #belongs(rows: FieldRows): string {
    const { definition, timezone } = this.scope
    const tests = [...this.#bounds('timestamp')]
    if (definition === 'id') tests.push('session != 0')
    else {
      tests.push(`${rows.userHash()} != ${NOBODY_HASH}`)
      if (definition.where) tests.push(buildCondition({ rows, timezone }, definition.where))
    }
    return tests.join(' AND ')
  }

  #hash(rows: FieldRows): string {
    return this.#isById ? 'session' : rows.userHash()
  }

  #bounds(instant: string): string[] {
    const { from, to } = this.scope
    const upper = `${instant} < ${this.#statement.number(to + DAY_MS)}`
    return from === undefined ? [upper] : [`${instant} >= ${this.#statement.number(from - DAY_MS)}`, upper]
  }

  #page(chosen: Chosen, name: PageName): string {
    const create = () => new PageColumns(this.#statement, { ofPageViews: isOfPageViews(chosen) })
    const page: ChosenPage = this.#pages.get(chosen) ?? { fields: create(), names: new Map() }
    this.#pages.set(chosen, page)
    const column = `${chosen}_${page.fields.column(name)}`
    page.names.set(name, column)
    return column
  }

  /** @param fact SQL for the column in `session_facts`; null if the table lacks it */
  #column(key: string, build: () => string, fact: string | null = null): string {
    const known = this.#columns.get(key)
    if (known) return known.name
    const name = `session_${this.#columns.size}`
    const column = { name, sql: '', fact }
    this.#columns.set(key, column)
    column.sql = build()
    return name
  }

  #moment(name: string, ofEvent: string, ofCall: string): string {
    if (!this.#moments.some((one) => one.name === name)) this.#moments.push({ name, ofEvent, ofCall })
    return name
  }

  /** A column with the token of a field of events. */
  #pick(path: string[]): string {
    const field = this.#events.field(path)
    const token = toToken(field, this.#statement)
    const known = this.#moments.find(({ ofEvent }) => ofEvent === token)
    return known?.name ?? this.#moment(`taken${this.#moments.length}`, token, `''`)
  }

  /** Operand of FROM: the moments of all sessions. */
  #selectMoments(): string {
    const rows = this.#events
    const all: MomentColumn[] = [
      { name: 'key', ofEvent: this.#hash(rows), ofCall: hashName('session_id') },
      { name: 'at', ofEvent: 'timestamp', ofCall: 'toFloat64(started_at)' },
      { name: 'until', ofEvent: 'timestamp', ofCall: 'toFloat64(ifNull(ended_at, updated_at))' },
      { name: 'place', ofEvent: PLACE, ofCall: 'toUInt256(0)' },
      { name: 'is_event', ofEvent: 'toUInt8(1)', ofCall: 'toUInt8(0)' },
      { name: 'is_page', ofEvent: isPageView(this.#statement), ofCall: 'toUInt8(0)' },
      ...(this.#isById ? [{ name: 'session_id', ofEvent: 'session_id', ofCall: 'session_id' }] : []),
      ...this.#moments,
    ]
    const belongs = this.#belongs(rows)
    const columns: EventColumn[] = ['event', 'distinct_id', 'timestamp', 'id']
    if (this.#isById) columns.push('session_id', 'session')
    if (this.#hasContext) columns.push(...CONTEXT_NAMES)
    if (this.#pages.size > 0) columns.push('json')
    const { from, to } = this.scope
    const hasSession = this.#only ?? this.#isById
    const range = { ...(from !== undefined && { from: from - DAY_MS }), to: to + DAY_MS, hasSession }
    const list = (side: 'ofEvent' | 'ofCall') => all.map((one) => `${one[side]} AS ${one.name}`).join(', ')
    const events = `SELECT ${list('ofEvent')} FROM ${rows.sql(range, [], columns)} AS rows WHERE ${belongs}`
    if (!this.#isById) return `(${events})`
    return `(${events} UNION ALL SELECT ${list('ofCall')} FROM ${this.#selectCalls()})`
  }

  /**
   * Operand of FROM: the sessions of the calls that started in the window. One thread reads them, because ClickHouse
   * groups each stream of rows in a separate table.
   */
  #selectCalls(): string {
    const { context, project } = this.#statement
    const columns = ['distinct_id', 'state', 'properties', 'duration', 'started_at', 'updated_at', 'ended_at']
    const keys = `project_id = ${project}`
    const newest = newestRows(context.shards, 'sessions', { keys, columns: [...columns, ...CONTEXT_NAMES] })
    const only = this.#only === null ? [] : [`${hashName('session_id')} IN ${this.#only}`]
    const where = `WHERE ${[keys, ...this.#bounds('toFloat64(started_at)'), ...only].join(' AND ')}`
    const taken = ['session_id', ...columns, ...CONTEXT_NAMES]
    const rows = `(SELECT ${taken.join(', ')} FROM ${newest} ${where} SETTINGS max_threads = 1)`
    const people = this.#hasUser
      ? `(SELECT ${taken.map((name) => `e.${name} AS ${name}`).join(', ')}, ${userSql(this.#statement)} AS person FROM ${rows} AS e ${joinAliases(this.#statement)})`
      : rows
    if (this.#calls.isEmpty) return people
    const raws = this.#calls.raws(this.#statement, 'properties').join(', ')
    const tokens = this.#calls.tokens(this.#statement, 'properties').join(', ')
    return `(SELECT *, ${tokens} FROM (SELECT *, ${raws} FROM ${people}))`
  }

  /** Operand of FROM: for each key, the times at which the next session begins. */
  #selectCuts(): string {
    const { definition } = this.scope
    const gap = definition === 'id' ? DAY_MS : (parseDuration(definition.gap) ?? 0)
    // A copy without columns for fields.
    const least = new Sessions(this.#statement, this.scope)
    least.#only = this.#only
    const far = this.#statement.number(gap)
    return `(SELECT key, starts FROM (
        SELECT key, arraySort(groupArray(at)) AS ats, arrayFilter((at, since) -> since > ${far}, ats, arrayDifference(ats)) AS starts
        FROM ${least.#selectMoments()} GROUP BY key
      ) WHERE notEmpty(starts))`
  }
}

/**
 * The order of events as one number: by time, then by id. Times are not negative, so their bits have the same order.
 * Calls are at 0: their context takes precedence over the events' contexts, and the events' users over theirs.
 */
const PLACE = 'bitOr(bitShiftLeft(toUInt256(reinterpretAsUInt64(timestamp + 0)), 128), toUInt256(id))'

/** The keys of the columns with a session's user, by name and by hash. */
const USER = 'user'
const USER_HASH = 'user hash'

/** The fields of a session that are numbers: of grouped moments, and in `session_facts`. */
const NUMBERS: Record<(typeof SESSION_NUMBERS)[number], { grouped: string; fact: string }> = {
  start: { grouped: 'min(at)', fact: 'start' },
  seconds: { grouped: '(max(until) - min(at)) / 1000', fact: '(until - start) / 1000' },
  events: { grouped: 'toFloat64(sum(is_event))', fact: 'toFloat64(events)' },
  pages: { grouped: 'toFloat64(sum(is_page))', fact: 'toFloat64(pages)' },
}
const isBounced = (pages: string, events: string) =>
  `multiIf(${pages} = 0, '', ${pages} = 1 AND ${events} = 1, 'true', 'false')`
const BOUNCED = { grouped: isBounced('sum(is_page)', 'sum(is_event)'), fact: isBounced('pages', 'events') }

const HAS_CONTEXT = `toUInt8(bot = 1 OR ${CONTEXT_TEXTS.map((name) => `${name} != ''`).join(' OR ')})`

/** Operand of FROM: sessions with all columns of the page of one of their events. */
function selectPage(sessions: string, chosen: Chosen, { fields }: ChosenPage): string {
  const json = `${chosen}_json`
  const rows = `SELECT *, if(${json} = '', '{}', ${json}) AS properties FROM ${sessions}`
  return fields.select(`(SELECT *, ${fields.raws(null).join(', ')} FROM (${rows}))`, { isPage: `${chosen}_is_page` })
}

function toToken(field: FieldSql, { context }: Statement): string {
  return field.type === 'json' ? field.sql : formatFieldJson(field, context)
}
