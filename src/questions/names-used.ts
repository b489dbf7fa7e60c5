import { OPERATORS, splitField } from '../contract/filters.js'
import { OTHER, SESSION } from '../contract/question-schemas.js'
import type { AnyQuestion, Comparison, Definition, FieldName, Filter, Question, Scalar } from '../contract/questions.js'
import type { PropertyType } from '../contract/responses.js'
import { isEventOfSession } from './field-name.js'
import type { FieldUse, ValueUse } from './known-values.js'

/** The name of an event in a question. */
export interface EventUse {
  /** a JSON pointer into the question as it was sent */
  path: string
  name: string
}

/** A property of events, users or the session calls in a question. */
export interface PropertyUse {
  /** a JSON pointer into the question as it was sent */
  path: string
  source: 'properties' | 'user' | 'session'
  /**
   * the event of a session that the property belongs to, such as `session` and `first`; absent if it is the event
   * itself
   */
  within?: readonly [string, string]
  /** the name at the top level and those within it */
  names: string[]
  /** the names of the events that it is looked for in; null for all events */
  events: readonly string[] | null
  /** the types of the values that count or match; null for any */
  types: readonly PropertyType[] | null
  /** the values that it is compared with */
  values: ComparedValue[]
}

export interface ComparedValue {
  path: string
  value: Scalar
}

/** The names in a question that are looked up in the store. */
export interface CheckedNames {
  events: EventUse[]
  properties: PropertyUse[]
}

export interface NamesUsed extends CheckedNames {
  /** the values that other fields are compared with */
  values: ValueUse[]
  fields: FieldUse[]
}

/**
 * Where a field is in a question, and how it is used. `hasSessions`: whether sessions are among the events that have
 * it; default: no
 */
type Place = Pick<PropertyUse, 'path' | 'events'> &
  Partial<Pick<PropertyUse, 'types' | 'values'> & Pick<FieldUse, 'isOfSessions'> & { hasSessions: boolean }>

/**
 * The names of events and properties in a question.
 * @param body the question as it was sent, which may have a name where the parsed one has a definition
 */
export function findNames(question: Question, body: unknown): NamesUsed {
  const used: NamesUsed = { events: [], properties: [], values: [], fields: [] }
  if (question.kind !== 'users') collect(question, body, '', used)
  else {
    const { of, cell } = question
    collect(of, getMember(body, 'of'), '/of', used)
    const { hasSessions } = listEvents(listDefinitions(of, '').map(({ definition }) => definition))
    for (const [name, event] of Object.entries(cell)) {
      const isEvent = of.kind === 'paths' && typeof event === 'string' && event !== OTHER
      if (isEvent && !(hasSessions && event === SESSION)) used.events.push({ path: `/cell/${name}`, name: event })
    }
  }
  return used
}

/** The name of a field in a query parameter. */
export function findFieldNames(field: FieldName, event: string | undefined): NamesUsed {
  const events = event === undefined ? [] : [{ path: '/event', name: event }]
  const used: NamesUsed = { events, properties: [], values: [], fields: [] }
  collectField(field, { path: '/field', events: event === undefined ? null : [event] }, used)
  return used
}

/** The names in the query parameter `where`. */
export function findFilterNames(filter: Filter): NamesUsed {
  const used: NamesUsed = { events: [], properties: [], values: [], fields: [] }
  collectFilter(filter, { path: '/where', events: null }, used)
  return used
}

function collect(question: AnyQuestion, body: unknown, path: string, used: NamesUsed): void {
  const definitions = listDefinitions(question, path)
  for (const { definition, path: at } of definitions) {
    const isPlain = typeof getMember(body, at.slice(path.length + 1)) === 'string'
    collectNames(definition.event, isPlain ? at : `${at}/event`, used)
    if (definition.where) collectFilter(definition.where, { path: `${at}/where`, ...listEvents([definition]) }, used)
  }
  const named = listEvents(definitions.map(({ definition }) => definition))
  // Paths consist of events of any name.
  const all = question.kind === 'paths' ? { events: null, hasSessions: named.hasSessions } : named
  if (question.where) collectFilter(question.where, { path: `${path}/where`, ...all }, used)
  const { sessions } = question
  // The default of the project is not part of the body.
  if (sessions !== 'id' && sessions.where && getMember(body, 'sessions')) {
    collectFilter(sessions.where, { path: `${path}/sessions/where`, events: null }, used)
  }
  if ('breakdown' in question) {
    const split = listEvents(listSplitDefinitions(question))
    for (const [i, field] of question.breakdown.entries()) {
      collectField(field, { path: `${path}/breakdown/${i}`, ...split }, used)
    }
  }
  if (question.kind !== 'series') return
  for (const [i, { property, ...definition }] of question.series.entries()) {
    const place = { path: `${path}/series/${i}/property`, ...listEvents([definition]) }
    if (property !== undefined) collectField(property, { ...place, types: ['number'] }, used)
  }
}

/** Which events a question names, each with its path. @param path of the question in the request */
export function listDefinitions(question: AnyQuestion, path: string): { definition: Definition; path: string }[] {
  const list = (name: string, definitions: readonly Definition[]) =>
    definitions.map((definition, i) => ({ definition, path: `${path}/${name}/${i}` }))
  const one = (name: string, definition: Definition | null) =>
    definition === null ? [] : [{ definition, path: `${path}/${name}` }]
  switch (question.kind) {
    case 'series':
      return list('series', question.series)
    case 'funnel':
      return [...list('steps', question.steps), ...list('exclude', question.exclude)]
    case 'retention':
      return [...one('start', question.start), ...one('return', question.return)]
    case 'paths':
      return [...one('start', question.start), ...one('end', question.end)]
  }
}

/** The definitions of the events whose fields a breakdown reads. */
function listSplitDefinitions(question: Extract<AnyQuestion, { breakdown: unknown }>): Definition[] {
  if (question.kind === 'series') return question.series
  return question.order === 'any' ? question.steps : question.steps.slice(0, 1)
}

/** The events of definitions, and whether all or some of them are sessions. */
function listEvents(definitions: readonly Definition[]) {
  const areSessions = definitions.map(({ event }) => event === SESSION)
  return {
    events: listEventNames(definitions),
    isOfSessions: areSessions.every(Boolean),
    hasSessions: areSessions.some(Boolean),
  }
}

/** The event names of definitions; null for all events. */
function listEventNames(definitions: readonly Pick<Definition, 'event'>[]): readonly string[] | null {
  const names = definitions.flatMap(({ event }) => event)
  // An asterisk in a list is a name like any other.
  return definitions.some(({ event }) => event === '*') ? null : [...new Set(names)]
}

/**
 * @param options `isInSession`: whether the filter is for events within a session, which cannot be sessions themselves
 */
function collectNames(
  event: string | string[],
  path: string,
  { events }: NamesUsed,
  { isInSession = false } = {},
): void {
  if (typeof event !== 'string') events.push(...event.map((name, i) => ({ path: `${path}/${i}`, name })))
  else if (event !== '*' && (event !== SESSION || isInSession)) events.push({ path, name: event })
}

function collectFilter(filter: Filter, { path, ...place }: Place, used: NamesUsed): void {
  switch (filter[0]) {
    case 'session_has': {
      const [, { event, where }] = filter
      collectNames(event, `${path}/1/event`, used, { isInSession: true })
      if (where) collectFilter(where, { path: `${path}/1/where`, events: listEventNames([{ event }]) }, used)
      return
    }
    case 'not':
      collectFilter(filter[1], { path: `${path}/1`, ...place }, used)
      return
    case 'and':
    case 'or':
      for (const [i, inner] of filter[1].entries()) collectFilter(inner, { path: `${path}/1/${i}`, ...place }, used)
      return
  }
  const values = listValues(filter, `${path}/2`)
  if (splitField(filter[1])[0] === 'event') {
    for (const { path, value } of values) {
      const isName = typeof value === 'string' && !(place.hasSessions && value === SESSION)
      if (isName) used.events.push({ path, name: value })
    }
  }
  collectField(filter[1], { path: `${path}/1`, ...place, values, types: listComparedTypes(filter) }, used)
}

/** The values that a filter compares as a whole. */
function listValues([operator, _, compared]: Comparison, path: string): ComparedValue[] {
  if (OPERATORS[operator] !== 'values' || !Array.isArray(compared)) return []
  return compared.map((value, i) => ({ path: `${path}/${i}`, value }))
}

/** The types of values that can match a comparison other than with whole values; null for any. */
function listComparedTypes([operator, field, compared]: Comparison): PropertyType[] | null {
  switch (OPERATORS[operator]) {
    case 'order':
      // A time can be compared with dates and times as well as with numbers.
      if (splitField(field)[0] === 'timestamp') return null
      return [typeof compared === 'number' ? 'number' : 'string']
    case 'texts':
      return operator === 'contains' || operator === 'not_contains' ? ['string', 'array'] : ['string']
    default:
      return null
  }
}

function collectField(field: FieldName, place: Place, { properties, values, fields }: NamesUsed): void {
  const { isOfSessions = false, hasSessions: _, ...used } = place
  const { path, types = null } = used
  fields.push({ path, field, types, isOfSessions })
  const [source = '', ...names] = splitField(field)
  if (isPropertySource(source)) {
    // Sessions have no properties that could be looked at.
    if (source === 'user' || !isOfSessions) properties.push({ types: null, values: [], ...used, source, names })
    return
  }
  const [which = '', inner = '', ...innerNames] = names
  if (source === 'session' && which === 'properties') {
    properties.push({ types: null, values: [], ...used, events: null, source, names: names.slice(1) })
    return
  }
  if (isEventOfSession(source, which) && isPropertySource(inner)) {
    const within = [source, which] as const
    properties.push({ types: null, values: [], ...used, events: null, within, source: inner, names: innerNames })
    return
  }
  values.push(...(used.values ?? []).map((compared) => ({ ...compared, field })))
}

function isPropertySource(source: string): source is 'properties' | 'user' {
  return source === 'properties' || source === 'user'
}

function getMember(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}
