import { SESSION } from '../contract/question-schemas.js'
import type { Definition, FieldName, Filter, SessionsDefinition } from '../contract/questions.js'
import { toDay } from '../store/fact-columns.js'
import { EventRows, formatFieldJson, selectRange } from './event-rows.js'
import { type FieldRows, type FieldSql, getFieldType, isScalarField } from './field-sql.js'
import { buildCondition, type FilterSql, findNumber, isNarrow } from './filter.js'
import { SessionRows } from './session-rows.js'
import { Sessions } from './sessions.js'
import type { QueryContext, Statement } from './statement.js'
import { NOBODY, NOBODY_HASH } from './users-join.js'

/** The events that a question is about, and the columns that it needs. */
export interface Matching {
  /** at most 64; events that match at least one are included, and sessions if one of them is `$session` */
  definitions: readonly Definition[]
  /** the filter of the whole question */
  where: Filter | null
  timezone: string
  breakdown?: readonly FieldName[]
  /** like `breakdown`, but as the columns `b0`, `b1` …, from which `formatValues` builds the list */
  split?: readonly FieldName[]
  /** fields whose numeric values are needed */
  values?: readonly FieldName[]
  /** epoch ms; absent: no lower bound */
  from?: number
  /** epoch ms, exclusive */
  to: number
  /** the sessions of the question, and the range that they reach a day beyond, which includes the range of the events */
  sessions: { definition: SessionsDefinition; from?: number; to: number }
  /** `known` excludes events without a known user; `all` includes them with the hash 0 */
  user: 'none' | 'all' | 'known'
  columns?: readonly ('id' | 'event' | 'day')[]
}

/** A definition with its bit in the mask. */
interface Numbered {
  definition: Definition
  bit: number
}

/**
 * The matching events of a project, as an operand of FROM. Columns: `timestamp` (Float64), `mask` (UInt64, bit i for
 * definition i); on demand `user` (the same for all aliases: a hash, or the name if the statement names users), `breakdown` (String, the JSON text of the list of
 * values), `b0`, `b1` …, `v0`, `v1` … (Nullable(Float64)), `id` (UInt128), `event`, `day` (Date32).
 */
export function selectMatchingEvents(statement: Statement, matching: Matching): string {
  const numbered = matching.definitions.map((definition, bit) => ({ definition, bit }))
  const ofSessions = numbered.filter(({ definition: { event } }) => event === SESSION)
  const ofEvents = numbered.filter(({ definition: { event } }) => event !== SESSION)
  if (ofSessions.length === 0) return selectFromEvents(statement, matching, ofEvents)
  if (ofEvents.length === 0) return selectFromSessions(statement, matching, ofSessions)
  return `(SELECT * FROM ${selectFromEvents(statement, matching, ofEvents)}
    UNION ALL SELECT * FROM ${selectFromSessions(statement, matching, ofSessions)})`
}

function selectFromEvents(statement: Statement, matching: Matching, numbered: readonly Numbered[]): string {
  const { where, timezone, columns = [] } = matching
  const rows = new EventRows(statement, createSessions(statement, matching))
  const context = { rows, timezone }
  const narrow = buildNarrowConditions(context, matching, numbered)
  const { selected, conditions } = selectColumns(context, matching, numbered)
  if (where !== null && !isNarrow(where)) conditions.push(buildCondition(context, where))
  const more = columns.filter((name) => name !== 'event')
  const base = ['event', 'distinct_id', 'timestamp', ...more] as const
  return select(selected, rows.sql(matching, narrow, base), conditions)
}

function selectFromSessions(statement: Statement, matching: Matching, numbered: readonly Numbered[]): string {
  const { where, timezone } = matching
  const rows = new SessionRows(statement, createSessions(statement, matching))
  const context = { rows, timezone }
  const { selected, conditions } = selectColumns(context, matching, numbered)
  const all = [...selectRange(statement, matching), ...conditions]
  if (where !== null) all.push(buildCondition(context, where))
  return select(selected, rows.sql(), all)
}

function select(columns: readonly string[], rows: string, conditions: readonly string[]): string {
  return `(SELECT ${columns.join(', ')} FROM ${rows} AS rows
    ${conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : ''})`
}

function createSessions(statement: Statement, { sessions, timezone, definitions }: Matching): Sessions {
  return new Sessions(statement, {
    ...sessions,
    timezone,
    areAlone: definitions.every(({ event }) => event === SESSION),
  })
}

/** The columns of a row, and conditions that need them. */
function selectColumns(context: FilterSql, matching: Matching, numbered: readonly Numbered[]) {
  const { breakdown, split = [], values = [], user, columns = [] } = matching
  const { rows } = context
  const { namesUsers } = rows.statement
  const mask = buildMask(context, numbered)
  const conditions = mask.condition === null ? [] : [mask.condition]
  const selected = ['timestamp', `${mask.sql} AS mask`]
  if (user === 'known') {
    conditions.push(namesUsers ? `${rows.user()} != '${NOBODY}'` : `${rows.userHash()} != ${NOBODY_HASH}`)
    selected.push(`${namesUsers ? rows.user() : rows.userHash()} AS user`)
  }
  if (user === 'all') selected.push(`if(${rows.userHash()} = ${NOBODY_HASH}, 0, ${rows.userHash()}) AS user`)
  if (breakdown) selected.push(`${buildList(rows, breakdown)} AS breakdown`)
  selected.push(...split.map((name, i) => `${rows.field(name).sql} AS b${i}`))
  selected.push(...values.map((name, i) => `${buildNumber(rows, name)} AS v${i}`))
  if (columns.includes('id')) selected.push('id')
  if (columns.includes('event')) selected.push('event')
  if (columns.includes('day')) selected.push(isOfSessions(numbered) ? `${toDay('timestamp')} AS day` : 'day')
  return { selected, conditions }
}

/** Conditions on narrow columns, which exclude most rows before properties are read. */
function buildNarrowConditions(context: FilterSql, matching: Matching, numbered: readonly Numbered[]): string[] {
  const { statement } = context.rows
  const { where } = matching
  const conditions: string[] = []
  if (numbered.every(({ definition: { event } }) => event !== '*')) {
    const names = new Set(numbered.flatMap(({ definition: { event } }) => event))
    conditions.push(`event IN ${statement.texts([...names])}`)
  }
  if (where !== null && isNarrow(where)) conditions.push(buildCondition(context, where))
  return conditions
}

function isOfSessions(numbered: readonly Numbered[]): boolean {
  return numbered.some(({ definition: { event } }) => event === SESSION)
}

/** SQL for the mask of definitions that an event matches, and the condition for matching any, unless all do. */
function buildMask(context: FilterSql, numbered: readonly Numbered[]): { sql: string; condition: string | null } {
  const [first] = numbered
  if (first && numbered.length === 1) {
    const { where } = first.definition
    return { sql: `toUInt64(${1n << BigInt(first.bit)})`, condition: where && buildCondition(context, where) }
  }
  const plain = numbered.filter(({ definition: { where } }) => where === null)
  const filtered = numbered.filter(({ definition: { where } }) => where !== null)
  const masks = new Map<string, bigint>()
  for (const { definition, bit } of filtered) {
    const { event, where } = definition
    const tests = isAny(event) ? [] : [`event IN ${context.rows.statement.texts([event].flat())}`]
    if (where) tests.push(buildCondition(context, where))
    const test = tests.join(' AND ')
    masks.set(test, (masks.get(test) ?? 0n) | (1n << BigInt(bit)))
  }
  const bits = Array.from(masks, ([test, mask]) => `if(${test}, toUInt64(${mask}), 0)`)
  if (plain.length > 0) bits.push(buildMaskOfNames(context.rows.statement, plain, filtered.length === 0))
  return {
    sql: bits.reduce((all, bit) => `bitOr(${all}, ${bit})`),
    condition: filtered.length > 0 ? 'mask != 0' : null,
  }
}

/**
 * SQL for the mask of definitions without filters: one look-up of the name.
 * @param areAll whether there are no other definitions, so that each event matches one of these
 */
function buildMaskOfNames(statement: Statement, numbered: readonly Numbered[], areAll: boolean): string {
  let ofAny = 0n
  const byName = new Map<string, bigint>()
  for (const { definition, bit } of numbered) {
    const mask = 1n << BigInt(bit)
    if (isAny(definition.event)) ofAny |= mask
    else for (const name of [definition.event].flat()) byName.set(name, (byName.get(name) ?? 0n) | mask)
  }
  const masks = [...byName.values()].map((mask) => mask | ofAny)
  const [only = ofAny, ...others] = new Set(areAll && ofAny === 0n ? masks : [...masks, ofAny])
  if (others.length === 0) return `toUInt64(${only})`
  return `toUInt64(transform(event, ${statement.texts([...byName.keys()])}, CAST([${masks}], 'Array(UInt64)'), toUInt64(${ofAny})))`
}

function isAny(event: Definition['event']): boolean {
  return event === '*' || event === SESSION
}

/** SQL for the JSON text of the values in the columns of `split`. */
export function formatValues(fields: readonly FieldName[], context: Pick<QueryContext, 'repairsTexts'>): string {
  return joinValues(
    fields.map((name, i) => {
      const field = { type: getFieldType(name), sql: `b${i}`, isScalar: isScalarField(name) } as FieldSql
      return formatFieldJson(field, context)
    }),
  )
}

/** Whether different values in the columns of `split` certainly have different JSON texts. */
export function areDistinct(fields: readonly FieldName[]): boolean {
  return fields.every(isScalarField)
}

function buildList(rows: FieldRows, fields: readonly FieldName[]): string {
  if (fields.length === 0) return `'[]'`
  return joinValues(fields.map((name) => formatFieldJson(rows.field(name), rows.statement.context)))
}

function joinValues(parts: readonly string[]): string {
  return `concat('[', ${parts.join(`, ',', `)}, ']')`
}

function buildNumber(rows: FieldRows, name: FieldName): string {
  const field = rows.field(name)
  if (field.type === 'number') return `toNullable(${field.sql})`
  return field.type === 'text' ? 'CAST(NULL AS Nullable(Float64))' : findNumber(field)
}
