import { isName, MAX_NAME } from '../contract/limits.js'
import type { Definition, FieldName, Filter, Scalar } from '../contract/questions.js'
import { Faults, type Fields } from './faults.js'
import { instantOf } from './time.js'

/** Maximum nesting of `and`, `or` and `not`. */
const MAX_NESTING = 10
const MAX_FILTERS = 100
const MAX_VALUES = 1000
const MAX_EVENTS = 1000
const MAX_FIELD_NAME = 1000
const MAX_PATH = 64
/** Maximum length of a text or pattern to compare with, characters. */
const MAX_TEXT = 10_000

const FIELDS = 'must be event, distinct_id, timestamp, properties.<name> or user.<name>'

/** Shared by all filters of a question. */
export interface FilterContext {
  faults: Faults
  timezone: string
  /** how many filters it has so far */
  filters: number
}

/** @returns null if there is none */
export function parseFilter(value: unknown, path: string, context: FilterContext): Filter | null {
  return value === undefined || value === null ? null : filterAt(value, path, context, 1)
}

/** `event` and `where` of an object. */
export function parseDefinition(fields: Fields, context: FilterContext): Definition {
  return {
    event: parseEvents(fields),
    where: parseFilter(fields.get('where'), `${fields.path}/where`, context),
  }
}

function parseEvents(fields: Fields): string | string[] {
  const event = fields.get('event')
  if (isName(event)) return event
  if (!Array.isArray(event) || event.length === 0 || event.length > MAX_EVENTS) {
    fields.fault('event', `must be the name of an event, an array of 1 to ${MAX_EVENTS} names, or "*" for all`)
    return '*'
  }
  for (const [i, name] of event.entries()) {
    if (!isName(name))
      fields.fault(`event/${i}`, `must be a name of 1 to ${MAX_NAME} characters, without unpaired surrogates`)
  }
  return event
}

export function parseField(value: unknown, path: string, { faults }: Pick<FilterContext, 'faults'>): FieldName {
  const names = typeof value === 'string' ? splitField(value) : value
  if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name === 'string')) {
    faults.add(path, `${FIELDS}; a name with a dot in it is written as an array: ["properties","a.b"]`)
    return 'event'
  }
  const [source, ...rest] = names as string[]
  const hasPath = source === 'properties' || source === 'user'
  if (!hasPath && !(rest.length === 0 && ['event', 'distinct_id', 'timestamp'].includes(source ?? ''))) {
    faults.add(path, FIELDS)
  } else if (hasPath && rest.length === 0) {
    faults.add(path, `must say which of them: ${source}.<name>`)
  } else if (rest.length > MAX_PATH || rest.some((name) => name.length > MAX_FIELD_NAME)) {
    faults.add(path, `must have at most ${MAX_PATH} names of at most ${MAX_FIELD_NAME} characters`)
  }
  return value as FieldName
}

/** Parses a field from a query parameter: written as in questions, or as a JSON array. @throws ApiError `invalid_request` */
export function parseFieldText(text: string): FieldName {
  const faults = new Faults()
  const field = parseField(text.startsWith('[') ? parsedOrText(text) : text, '/field', { faults })
  faults.throwIfAny()
  return field
}

function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** The names of a field: its source, then the path to a value within it. */
export function splitField(field: FieldName): string[] {
  return typeof field === 'string' ? field.split('.') : field
}

function filterAt(value: unknown, path: string, context: FilterContext, level: number): Filter | null {
  const { faults } = context
  if (++context.filters > MAX_FILTERS) {
    faults.add(path, `must not be there: a question has at most ${MAX_FILTERS} filters`)
    throw fail(faults)
  }
  if (!Array.isArray(value) || typeof value[0] !== 'string') {
    faults.add(path, 'must be a filter such as ["is", "properties.plan", ["pro"]]')
    return null
  }
  const [operator] = value
  if (operator === 'and' || operator === 'or' || operator === 'not') return group(operator, value, path, context, level)
  return comparison(value, path, context)
}

function group(
  operator: 'and' | 'or' | 'not',
  value: unknown[],
  path: string,
  context: FilterContext,
  level: number,
): Filter | null {
  const { faults } = context
  const [, of] = value
  if (level > MAX_NESTING) {
    faults.add(path, `must not be nested more than ${MAX_NESTING} levels deep`)
    return null
  }
  if (value.length !== 2) {
    faults.add(path, operator === 'not' ? 'must be ["not", filter]' : `must be ["${operator}", [filters]]`)
    return null
  }
  if (operator === 'not') {
    const inner = filterAt(of, `${path}/1`, context, level + 1)
    return inner && ['not', inner]
  }
  if (!Array.isArray(of)) {
    faults.add(`${path}/1`, 'must be an array of filters')
    return null
  }
  const inner = of.map((one, i) => filterAt(one, `${path}/1/${i}`, context, level + 1))
  return [operator, inner.filter((one) => one !== null)]
}

function comparison(value: unknown[], path: string, context: FilterContext): Filter | null {
  const { faults } = context
  const [first, name, operand] = value
  const operator = typeof first === 'string' ? first : ''
  const isPresence = operator === 'set' || operator === 'not_set'
  const check = isPresence ? null : CHECKS.get(operator)
  if (check === undefined) {
    faults.add(`${path}/0`, `must be one of ${[...CHECKS.keys(), 'set', 'not_set', 'and', 'or', 'not'].join(', ')}`)
    return null
  }
  const length = isPresence ? 2 : 3
  if (value.length !== length) {
    faults.add(path, isPresence ? `must be ["${operator}", field]` : `must be ["${operator}", field, value]`)
    return null
  }
  const field = parseField(name, `${path}/1`, context)
  const fault = check?.(operand, field, context)
  if (fault) faults.add(`${path}/2`, fault)
  return (isPresence ? [operator, field] : [operator, field, operand]) as Filter
}

/** Returns what is wrong with an operand; undefined if it is valid. */
type Check = (operand: unknown, field: FieldName, context: FilterContext) => string | undefined

const isValue = (value: unknown): value is Scalar =>
  value === null || typeof value === 'number' || typeof value === 'boolean' || isText(value)
const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= MAX_TEXT

const list: Check = (operand) => {
  if (Array.isArray(operand) && operand.length <= MAX_VALUES && operand.every(isValue)) return undefined
  return `must be an array of at most ${MAX_VALUES} texts, numbers, booleans or nulls`
}

const texts: Check = (operand) => {
  const all = Array.isArray(operand) ? operand : [operand]
  if (all.length <= MAX_VALUES && all.every(isText)) return undefined
  return `must be a text, or an array of at most ${MAX_VALUES} texts`
}

const order: Check = (operand, field, { timezone }) => {
  if (typeof operand === 'number') return undefined
  if (!isText(operand)) return 'must be a number or a text'
  const isTime = splitField(field)[0] === 'timestamp'
  if (isTime && instantOf(operand, timezone) === null) return 'must be a number, a date or an ISO time'
  return undefined
}

/** By operator. A map, as an object has more than its own names. */
const CHECKS: ReadonlyMap<string, Check> = new Map([
  ['is', list],
  ['is_not', list],
  ['contains', texts],
  ['not_contains', texts],
  ['starts_with', texts],
  ['ends_with', texts],
  ['matches', texts],
  ['gt', order],
  ['gte', order],
  ['lt', order],
  ['lte', order],
])

/** Ends the parsing at once with the faults found so far. */
function fail(faults: Faults): never {
  faults.throwIfAny()
  throw new Error('there is a fault')
}
