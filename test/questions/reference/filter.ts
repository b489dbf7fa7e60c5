import type { Fact } from './data.js'
import { areEqual, compareTexts, type Value } from './json.js'
import { timeOf } from './time.js'

export type Field = string | string[]
// biome-ignore lint/suspicious/noExplicitAny: a filter is a list whose members depend on its first
export type Filter = [operator: string, ...rest: any[]]

/** An event that a question names: its name, some names or `*`, and what else must hold. */
export interface Definition {
  event: string | string[]
  where?: Filter | null
}

/** The value of a field; null if it is not set. */
export function fieldValue(field: Field, fact: Fact): Value {
  const [first = '', ...path] = Array.isArray(field) ? field : field.split('.')
  switch (first) {
    case 'event':
      return fact.event
    case 'distinct_id':
      return fact.distinctId
    case 'timestamp':
      return fact.timestamp
    case 'properties':
      return at(fact.properties, path)
    case 'user':
      return at(fact.profile, path)
    default:
      throw new Error(`no field: ${field}`)
  }
}

function at(value: Value, path: string[]): Value {
  return path.reduce<Value>((inner, name) => (inner instanceof Map ? (inner.get(name) ?? null) : null), value)
}

export function isEvent({ event, where }: Definition, fact: Fact, zone: string): boolean {
  const isNamed = event === '*' || event === fact.event || (Array.isArray(event) && event.includes(fact.event))
  return isNamed && matches(where, fact, zone)
}

/** Whether a filter holds for an event; no filter always does. */
export function matches(filter: Filter | null | undefined, fact: Fact, zone: string): boolean {
  if (!filter) return true
  const [operator, first, second] = filter
  switch (operator) {
    case 'and':
      return first.every((inner: Filter) => matches(inner, fact, zone))
    case 'or':
      return first.some((inner: Filter) => matches(inner, fact, zone))
    case 'not':
      return !matches(first, fact, zone)
    case 'is_not':
      return !matches(['is', first, second], fact, zone)
    case 'not_contains':
      return !matches(['contains', first, second], fact, zone)
    case 'not_set':
      return fieldValue(first, fact) === null
    case 'set':
      return fieldValue(first, fact) !== null
    case 'is':
      return someMember(fieldValue(first, fact), (value) => listOf(second).some((one) => areEqual(one, value)))
    case 'contains':
      return someMember(fieldValue(first, fact), (value) => isSome(value, second, (text, part) => text.includes(part)))
    case 'starts_with':
      return isSome(fieldValue(first, fact), second, (text, part) => text.startsWith(part))
    case 'ends_with':
      return isSome(fieldValue(first, fact), second, (text, part) => text.endsWith(part))
    case 'matches':
      return isSome(fieldValue(first, fact), second, (text, pattern) => new RegExp(pattern, 'u').test(text))
    default:
      return isInOrder(operator, fieldValue(first, fact), first === 'timestamp' ? timeOf(second, zone) : second)
  }
}

function listOf<T>(one: T | T[]): T[] {
  return Array.isArray(one) ? one : [one]
}

/** An array matches if one of its members does. */
function someMember(value: Value, test: (value: Value) => boolean): boolean {
  return Array.isArray(value) ? value.some(test) : test(value)
}

function isSome(value: Value, texts: string | string[], test: (text: string, one: string) => boolean): boolean {
  return typeof value === 'string' && listOf(texts).some((one) => test(value, one))
}

/** Numbers are compared with numbers only, and texts with texts. */
function isInOrder(operator: string, value: Value, limit: Value): boolean {
  let order: number
  if (typeof value === 'number' && typeof limit === 'number') order = value === limit ? 0 : value - limit
  else if (typeof value === 'string' && typeof limit === 'string') order = compareTexts(value, limit)
  else return false
  switch (operator) {
    case 'gt':
      return order > 0
    case 'gte':
      return order >= 0
    case 'lt':
      return order < 0
    case 'lte':
      return order <= 0
    default:
      throw new Error(`no operator: ${operator}`)
  }
}
