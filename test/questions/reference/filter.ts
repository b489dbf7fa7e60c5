import type { Fact, Session } from './data.js'
import { areEqual, compareTexts, type Value } from './json.js'
import { pageField } from './pages.js'
import { timeOf } from './time.js'

export type Field = string | string[]
// biome-ignore lint/suspicious/noExplicitAny: a filter is a list whose members depend on its first
export type Filter = [operator: string, ...rest: any[]]

/** An event that a question names: its name, several names or `*`, and its filter. */
export interface Definition {
  event: string | string[]
  where?: Filter | null
}

export type SessionsDefinition = 'id' | { gap: string; where?: Filter | null }

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
    case 'context':
      return fact.context.get(path[0] ?? '') ?? null
    case 'page': {
      // The page of a session is that of its first page view.
      const page = fact.isSession ? fact.session?.pages[0] : fact
      return page ? pageField(path[0] ?? '', page) : null
    }
    case 'session':
      return fact.session === null ? null : sessionField(path, fact.session)
    default:
      throw new Error(`no field: ${field}`)
  }
}

function sessionField([name = '', ...path]: string[], { id, start, end, events, pages, call }: Session): Value {
  const of = (fact: Fact | undefined) => (fact ? fieldValue(path, fact) : null)
  switch (name) {
    case 'id':
      return id
    case 'start':
      return start
    case 'seconds':
      return (end - start) / 1000
    case 'events':
      return events.length
    case 'pages':
      return pages.length
    case 'bounced':
      return pages.length === 0 ? null : pages.length === 1 && events.length === 1
    case 'first':
      return of(events[0])
    case 'last':
      return of(events.at(-1))
    case 'entry':
      return of(pages[0])
    case 'exit':
      return of(pages.at(-1))
    case 'properties':
      return call ? at(call.properties, path) : null
    case 'state':
      return call?.state ?? null
    case 'duration':
      return call?.duration ?? null
    default:
      throw new Error(`no field of a session: ${name}`)
  }
}

function at(value: Value, path: string[]): Value {
  return path.reduce<Value>((inner, name) => (inner instanceof Map ? (inner.get(name) ?? null) : null), value)
}

export function isEvent({ event, where }: Definition, fact: Fact, zone: string): boolean {
  // Only the name by itself means sessions.
  if (fact.isSession) return event === '$session' && matches(where, fact, zone)
  const isAlone = event === fact.event && event !== '$session'
  const isNamed = event === '*' || isAlone || (Array.isArray(event) && event.includes(fact.event))
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
    case 'session_has':
      return fact.session?.events.some((one) => isEvent(first, { ...one, session: fact.session }, zone)) ?? false
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
