import { formatExactJson } from '../contract/exact-json.js'
import { splitField } from '../contract/filters.js'
import type { FieldName, Filter, Scalar, SessionEvents } from '../contract/questions.js'
import { decodeText, extractMembers, isArray, isText, parseNumber, toTextToken } from '../store/json-sql.js'
import type { FieldRows, FieldSql } from './field-sql.js'
import { joinPatterns } from './patterns.js'
import type { QueryContext, Statement } from './statement.js'
import { parseInstant } from './time.js'

/** The context of a filter's SQL. */
export interface FilterSql {
  rows: FieldRows
  timezone: string
}

const FALSE = '0'
const ALWAYS: Filter = ['and', []]
const NEVER: Filter = ['or', []]

/** SQL for whether an event row passes a filter: 0 or 1, never null. */
export function buildCondition(context: FilterSql, filter: Filter): string {
  switch (filter[0]) {
    case 'and':
      return joinConditions(context, filter[1], 'AND', '1')
    case 'or':
      return joinConditions(context, filter[1], 'OR', FALSE)
    case 'not':
      return `NOT (${buildCondition(context, filter[1])})`
    case 'session_has':
      return hasEvent(context, filter[1])
    case 'is':
      return buildIsOneOf(context, filter[1], filter[2])
    case 'is_not':
      return `NOT (${buildIsOneOf(context, filter[1], filter[2])})`
    case 'contains':
    case 'starts_with':
    case 'ends_with':
    case 'matches':
      return hasText(context, filter[0], filter[1], filter[2])
    case 'not_contains':
      return `NOT (${hasText(context, 'contains', filter[1], filter[2])})`
    case 'set':
      return isSet(context, filter[1])
    case 'not_set':
      return `NOT (${isSet(context, filter[1])})`
    default:
      return isOrdered(context, filter[0], filter[1], filter[2])
  }
}

/** Whether a filter uses only narrow columns, which makes it cheap to check first. */
export function isNarrow(filter: Filter): boolean {
  if (filter[0] === 'and' || filter[0] === 'or') return filter[1].every(isNarrow)
  if (filter[0] === 'not') return isNarrow(filter[1])
  if (filter[0] === 'session_has') return false
  const [source = ''] = splitField(filter[1] as FieldName)
  return ['event', 'distinct_id', 'timestamp'].includes(source)
}

/**
 * SQL for whether the row's session has such an event. A condition about the session itself is true for all of its
 * events or for none, and is known only after they are grouped. So the events are tested once for each combination of
 * these conditions, and the row picks the result for its own.
 */
function hasEvent(context: FilterSql, events: SessionEvents): string {
  const { event, where } = events
  const conditions = new Map(where ? listSessionConditions(where).map((one) => [formatExactJson(one), one]) : [])
  if (!where || conditions.size === 0) return context.rows.sessionHas(events)
  const texts = [...conditions.keys()]
  const tests = Array.from({ length: 2 ** texts.length }, (_, combination) => {
    const held = new Set(texts.filter((_, i) => (combination & (2 ** i)) > 0))
    const rest = assume(where, held)
    return rest === NEVER ? FALSE : context.rows.sessionHas({ event, where: rest })
  })
  const combination = [...conditions.values()].map((one, i) => `${2 ** i} * (${buildCondition(context, one)})`)
  return `[${tests.join(', ')}][1 + ${combination.join(' + ')}]`
}

/** The parts of a filter of events that are about their session. */
function listSessionConditions(filter: Filter): Filter[] {
  if (filter[0] === 'and' || filter[0] === 'or') return filter[1].flatMap(listSessionConditions)
  if (filter[0] === 'not') return listSessionConditions(filter[1])
  return isOfSession(filter) ? [filter] : []
}

function isOfSession(filter: Filter): boolean {
  return filter[0] === 'session_has' || splitField(filter[1] as FieldName)[0] === 'session'
}

/** A filter with constants for its conditions about the session. @param held the JSON of those that hold */
function assume(filter: Filter, held: ReadonlySet<string>): Filter {
  if (filter[0] === 'and' || filter[0] === 'or') {
    const [neutral, deciding] = filter[0] === 'and' ? [ALWAYS, NEVER] : [NEVER, ALWAYS]
    const parts = filter[1].map((one) => assume(one, held)).filter((one) => one !== neutral)
    return parts.includes(deciding) ? deciding : parts.length === 0 ? neutral : [filter[0], parts]
  }
  if (filter[0] === 'not') {
    const inner = assume(filter[1], held)
    return inner === ALWAYS ? NEVER : inner === NEVER ? ALWAYS : ['not', inner]
  }
  if (!isOfSession(filter)) return filter
  return held.has(formatExactJson(filter)) ? ALWAYS : NEVER
}

function joinConditions(context: FilterSql, filters: Filter[], word: 'AND' | 'OR', none: string): string {
  if (filters.length === 0) return none
  return `(${filters.map((one) => buildCondition(context, one)).join(` ${word} `)})`
}

function isSet({ rows }: FilterSql, name: FieldName): string {
  const { type, sql } = rows.field(name)
  return type === 'json' ? `${sql} != ''` : '1'
}

function buildIsOneOf({ rows }: FilterSql, name: FieldName, values: Scalar[]): string {
  const { statement } = rows
  const field = rows.field(name)
  const { type, sql } = field
  // The fields that are texts have no unpaired surrogates, and a list of parameters would replace them.
  const texts = values.filter((value) => typeof value === 'string').filter((value) => value.isWellFormed())
  const numbers = values.filter((value) => typeof value === 'number')
  if (type === 'text') return texts.length > 0 ? `${sql} IN ${statement.texts(texts)}` : FALSE
  if (type === 'number') return numbers.length > 0 ? `${sql} IN ${statement.numbers(numbers)}` : FALSE
  const tokens = values.flatMap((value) => (typeof value === 'number' || value === null ? [] : toToken(value)))
  if (field.flag) {
    const flags = [
      ...(values.includes(true) ? [field.flag] : []),
      ...(values.includes(null) ? [`NOT (${field.flag})`] : []),
    ]
    return flags.length > 0 ? `(${flags.join(' OR ')})` : FALSE
  }
  const tests = (token: string, number = parseNumber(token)) => [
    ...(tokens.length > 0 ? [`${token} IN ${statement.texts(tokens)}`] : []),
    ...(numbers.length > 0 ? [`ifNull(${number} IN ${statement.numbers(numbers)}, 0)`] : []),
  ]
  const hasNull = values.includes(null)
  const own = [...tests(sql, findNumber(field)), ...(hasNull ? [`${sql} = ''`] : [])]
  const ofMember = [...tests('member'), ...(hasNull ? [`member = 'null'`] : [])]
  if (own.length === 0) return FALSE
  if (field.isScalar) return `(${own.join(' OR ')})`
  // Arrays never equal a value. For a column with a dictionary, OR would evaluate every row.
  const members = extractMembers(sql, statement.context.repairsTexts)
  return `if(${isArray(sql)}, arrayExists(member -> ${ofMember.join(' OR ')}, ${members}), ${own.join(' OR ')})`
}

function toToken(value: string | boolean): string {
  return typeof value === 'string' ? toTextToken(value) : String(value)
}

type HasText = 'contains' | 'starts_with' | 'ends_with' | 'matches'

function hasText({ rows }: FilterSql, operator: HasText, name: FieldName, given: string | string[]): string {
  const field = rows.field(name)
  const values = typeof given === 'string' ? [given] : given
  const texts = operator === 'matches' ? joinPatterns(values) : values
  const test = buildTest(rows.statement, operator, texts)
  // Test a constant, so that an invalid pattern is an error even if there are no events.
  const check = operator === 'matches' && texts.length > 0 ? [`NOT ignore(${test("''")})`] : []
  return `(${[...check, hasAnyText(field, operator, test, rows.statement.context)].join(' AND ')})`
}

/** Up to this many texts get an expression each, which is faster than a loop over an array. */
const FEW_TEXTS = 10

/** Builds SQL that tests whether a text matches any of the caller's. */
function buildTest(statement: Statement, operator: HasText, texts: string[]): (text: string) => string {
  if (texts.length > FEW_TEXTS) {
    const array = statement.anyTexts(texts)
    return (text) => `arrayExists(wanted -> ${TESTS[operator](text, 'wanted')}, ${array})`
  }
  const parameters = texts.map((value) => statement.text(value))
  return (text) => `(${parameters.map((value) => TESTS[operator](text, value)).join(' OR ') || FALSE})`
}

function hasAnyText(
  field: FieldSql,
  operator: HasText,
  test: (text: string) => string,
  { repairsTexts }: QueryContext,
): string {
  const { type, sql } = field
  if (type === 'number') return FALSE
  if (type === 'text') return test(sql)
  const own = `${isText(sql)} AND ${test(decodeText(sql, repairsTexts))}`
  if (operator !== 'contains' || field.isScalar) return `(${own})`
  const ofMember = `${isText('member')} AND ${test(decodeText('member', repairsTexts))}`
  return `(${own} OR (${isArray(sql)} AND arrayExists(member -> ${ofMember}, ${extractMembers(sql, repairsTexts)})))`
}

const TESTS: Record<HasText, (text: string, value: string) => string> = {
  contains: (text, value) => `position(${text}, ${value}) > 0`,
  starts_with: (text, value) => `startsWith(${text}, ${value})`,
  ends_with: (text, value) => `endsWith(${text}, ${value})`,
  matches: (text, value) => `match(${text}, ${value})`,
}

const OPERATORS = { gt: '>', gte: '>=', lt: '<', lte: '<=' } as const

function isOrdered(
  { rows, timezone }: FilterSql,
  operator: keyof typeof OPERATORS,
  name: FieldName,
  value: number | string,
): string {
  const { statement } = rows
  const field = rows.field(name)
  const { type, sql } = field
  const compare = OPERATORS[operator]
  if (type === 'number') {
    const instant = parseInstant(value, timezone)
    return instant === null ? FALSE : `${sql} ${compare} ${statement.number(instant)}`
  }
  if (typeof value === 'number') {
    return type === 'text' ? FALSE : `ifNull(${findNumber(field)} ${compare} ${statement.number(value)}, 0)`
  }
  const text = statement.text(value)
  return type === 'text'
    ? `${sql} ${compare} ${text}`
    : `(${isText(sql)} AND ${decodeText(sql, statement.context.repairsTexts)} ${compare} ${text})`
}

/** SQL for the number that a token represents; null if it represents another kind of value. */
export function findNumber(field: FieldSql & { type: 'json' }): string {
  return field.number ?? parseNumber(field.sql)
}
