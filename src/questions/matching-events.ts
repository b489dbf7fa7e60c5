import type { Definition, FieldName, Filter } from '../contract/questions.js'
import { EventRows, formatFieldJson } from './event-rows.js'
import { buildCondition, type FilterSql, isNarrow } from './filter.js'
import { parseNumber } from './json-sql.js'
import type { Statement } from './statement.js'
import { NOBODY } from './users-join.js'

/** The events that a question is about, and the columns that it needs. */
export interface Matching {
  /** at most 64; events that match at least one are included */
  definitions: readonly Definition[]
  /** the filter of the whole question */
  where: Filter | null
  timezone: string
  breakdown?: readonly FieldName[]
  /** fields whose numeric values are needed */
  values?: readonly FieldName[]
  /** epoch ms; absent: no lower bound */
  from?: number
  /** epoch ms, exclusive */
  to: number
  /** `known` excludes events without a known user; `all` includes them with an empty user */
  user: 'none' | 'all' | 'known'
  columns?: readonly ('id' | 'event')[]
}

/**
 * The matching events of a project, as an operand of FROM. Columns: `timestamp` (Float64), `mask` (UInt64, bit i for
 * definition i); on demand `user` (String, the same for all aliases), `breakdown` (String, the JSON text of the list of
 * values), `v0`, `v1` … (Nullable(Float64)), `id` (UInt128), `event`.
 */
export function selectMatchingEvents(statement: Statement, matching: Matching): string {
  const { definitions, where, timezone, breakdown, values = [], user, columns = [] } = matching
  const rows = new EventRows(statement)
  const context = { rows, timezone }
  const narrow = buildNarrowConditions(context, matching)
  const conditions = where === null || isNarrow(where) ? [] : [buildCondition(context, where)]
  const mask = buildMask(context, definitions)
  if (mask.isOptional) conditions.push('mask != 0')
  if (user === 'known') conditions.push(`${rows.user()} != '${NOBODY}'`)
  const selected = ['timestamp', `${mask.sql} AS mask`]
  if (user === 'known') selected.push('person AS user')
  if (user === 'all') selected.push(`if(${rows.user()} = '${NOBODY}', '', person) AS user`)
  if (breakdown) selected.push(`${buildList(rows, breakdown)} AS breakdown`)
  selected.push(...values.map((name, i) => `${buildNumber(rows, name)} AS v${i}`))
  if (columns.includes('id')) selected.push('id')
  if (columns.includes('event')) selected.push('event')
  const base = ['event', 'distinct_id', 'timestamp', ...(columns.includes('id') ? ['toUInt128(event_id) AS id'] : [])]
  return `(SELECT ${selected.join(', ')} FROM ${rows.sql(narrow, base)} AS rows
    ${conditions.length > 0 ? `WHERE ${conditions.join(' AND ')}` : ''})`
}

/** Conditions on narrow columns, which exclude most rows before properties are read. */
function buildNarrowConditions(context: FilterSql, { definitions, where, from, to }: Matching): string[] {
  const { statement } = context.rows
  const conditions = from === undefined ? [] : [`timestamp >= ${statement.number(from)}`]
  conditions.push(`timestamp < ${statement.number(to)}`)
  if (definitions.every(({ event }) => event !== '*')) {
    const names = new Set(definitions.flatMap(({ event }) => event))
    conditions.push(`event IN ${statement.texts([...names])}`)
  }
  if (where !== null && isNarrow(where)) conditions.push(buildCondition(context, where))
  return conditions
}

/** SQL for the mask of definitions that an event matches; `isOptional` if it may match none. */
function buildMask(context: FilterSql, definitions: readonly Definition[]): { sql: string; isOptional: boolean } {
  const { statement } = context.rows
  const [first] = definitions
  if (first && definitions.length === 1 && first.where === null) return { sql: 'toUInt64(1)', isOptional: false }
  const bits = definitions.map(({ event, where }, i) => {
    const tests = event === '*' ? [] : [`event IN ${statement.texts([event].flat())}`]
    if (where) tests.push(buildCondition(context, where))
    return `bitShiftLeft(toUInt64(${tests.length > 0 ? tests.join(' AND ') : '1'}), ${i})`
  })
  const sql = bits.reduce((all, bit) => `bitOr(${all}, ${bit})`)
  return { sql, isOptional: definitions.some(({ where }) => where !== null) }
}

function buildList(rows: EventRows, fields: readonly FieldName[]): string {
  if (fields.length === 0) return `'[]'`
  const parts = fields.map((name) => formatFieldJson(rows.field(name), rows.statement.context))
  return `concat('[', ${parts.join(`, ',', `)}, ']')`
}

function buildNumber(rows: EventRows, name: FieldName): string {
  const { type, sql } = rows.field(name)
  if (type === 'number') return `toNullable(${sql})`
  return type === 'text' ? 'CAST(NULL AS Nullable(Float64))' : parseNumber(sql)
}
