import type { AnyQuestion, Definition, FieldName, Filter, Question } from '../contract/questions.js'
import { splitField } from './field-name.js'

/** The name of an event in a question. */
export interface EventUse {
  /** a JSON pointer into the question as it was sent */
  path: string
  name: string
}

/** The name of a property, at the top level, in a question. */
export interface PropertyUse extends EventUse {
  /** the names below it */
  rest: string[]
  /** the names of the events that it is wanted of; null: of any */
  events: readonly string[] | null
}

export interface NamesUsed {
  events: EventUse[]
  properties: PropertyUse[]
}

interface PropertyPath {
  path: string
  events: readonly string[] | null
}

/**
 * The names of events and properties in a question.
 * @param body the question as it was sent, which may have a name where the parsed one has a definition
 */
export function namesIn(question: Question, body: unknown): NamesUsed {
  const used: NamesUsed = { events: [], properties: [] }
  if (question.kind === 'users') collect(question.of, memberOf(body, 'of'), '/of', used)
  else collect(question, body, '', used)
  return used
}

function collect(question: AnyQuestion, body: unknown, path: string, used: NamesUsed): void {
  const definitions = definitionsOf(question, path)
  for (const { definition, path: at } of definitions) {
    const isPlain = typeof memberOf(body, at.slice(path.length + 1)) === 'string'
    collectNames(definition.event, isPlain ? at : `${at}/event`, used)
    const place = { path: `${at}/where`, events: namesOf(definition) }
    if (definition.where) collectFilter(definition.where, place, used)
  }
  const named = definitions.map(({ definition }) => namesOf(definition))
  const events = named.every((names) => names !== null) ? [...new Set(named.flat())] : null
  if (question.where) collectFilter(question.where, { path: `${path}/where`, events }, used)
  if ('breakdown' in question) {
    for (const [i, field] of question.breakdown.entries()) {
      collectField(field, { path: `${path}/breakdown/${i}`, events }, used)
    }
  }
  if (question.kind !== 'series') return
  for (const [i, { property, ...definition }] of question.series.entries()) {
    const place = { path: `${path}/series/${i}/property`, events: namesOf(definition) }
    if (property !== undefined) collectField(property, place, used)
  }
}

function definitionsOf(question: AnyQuestion, path: string): { definition: Definition; path: string }[] {
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

/** null for all events. */
function namesOf({ event }: Pick<Definition, 'event'>): readonly string[] | null {
  return event === '*' ? null : [event].flat()
}

function collectNames(event: string | string[], path: string, { events }: NamesUsed): void {
  if (typeof event !== 'string') events.push(...event.map((name, i) => ({ path: `${path}/${i}`, name })))
  else if (event !== '*') events.push({ path, name: event })
}

function collectFilter(filter: Filter, { path, events }: PropertyPath, used: NamesUsed): void {
  switch (filter[0]) {
    case 'not':
      collectFilter(filter[1], { path: `${path}/1`, events }, used)
      return
    case 'and':
    case 'or':
      for (const [i, inner] of filter[1].entries()) collectFilter(inner, { path: `${path}/1/${i}`, events }, used)
      return
    case 'is':
      if (splitField(filter[1])[0] === 'event') {
        for (const [i, value] of filter[2].entries()) {
          if (typeof value === 'string') used.events.push({ path: `${path}/2/${i}`, name: value })
        }
      }
      break
  }
  collectField(filter[1], { path: `${path}/1`, events }, used)
}

function collectField(field: FieldName, { path, events }: PropertyPath, { properties }: NamesUsed): void {
  const [source, name, ...rest] = splitField(field)
  if (source === 'properties' && name !== undefined) properties.push({ path, name, rest, events })
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}
