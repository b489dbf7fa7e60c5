import { type FieldName, splitField } from '../contract/filters.js'
import { CONTEXT_NAMES, PAGE_NAMES } from '../contract/page-fields.js'
import { FIELD_MESSAGE } from '../contract/question-schemas.js'
import { Faults } from './faults.js'

const MAX_NAME_LENGTH = 1000
const MAX_PATH = 64

/** Formats a field as in questions: as JSON if a name contains a dot. */
export function formatPath(source: 'properties' | 'user', names: readonly string[]): string {
  const field = toField(source, names)
  return typeof field === 'string' ? field : JSON.stringify(field)
}

/** The field of a path: a list if a name contains a dot. */
export function toField(source: string, names: readonly string[]): FieldName {
  return names.some((name) => name.includes('.')) ? [source, ...names] : [source, ...names].join('.')
}

/**
 * Parses a field from a query parameter: written as in questions, or as a JSON array.
 * @throws ApiError `invalid_request`
 */
export function parseFieldText(text: string): FieldName {
  const field = text.startsWith('[') ? parseJsonOrText(text) : text
  const faults = new Faults()
  const fault = findFieldFault(field)
  if (fault !== undefined) faults.add('/field', fault)
  faults.throwIfAny()
  return field as FieldName
}

/** The fields of a session itself, without the fields of its events. */
const SESSION_NAMES = ['id', 'start', 'seconds', 'events', 'pages', 'bounced', 'state', 'duration'] as const
/** The events of a session that fields can be taken from. */
const SESSION_EVENTS = ['first', 'last', 'entry', 'exit'] as const

/** The fields of events other than properties, for autocompletion. */
export const FIELDS: string[] = [
  ...PAGE_NAMES.map((name) => `page.${name}`),
  ...CONTEXT_NAMES.map((name) => `context.${name}`),
  ...SESSION_NAMES.map((name) => `session.${name}`),
  ...SESSION_EVENTS.flatMap((event) => PAGE_NAMES.map((name) => `session.${event}.page.${name}`)),
]

/** Whether a field that begins like this is one of an event of a session. */
export function isEventOfSession(source: string, which: string): boolean {
  return source === 'session' && (SESSION_EVENTS as readonly string[]).includes(which)
}

/** Returns what is wrong with the name of a field; undefined if it is valid. */
export function findFieldFault(value: unknown): string | undefined {
  const names: unknown = typeof value === 'string' ? splitField(value) : value
  if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name === 'string')) {
    return `${FIELD_MESSAGE}; write a name that contains a dot as an array: ["properties","a.b"]`
  }
  const [source = '', ...rest] = names as string[]
  switch (source) {
    case 'event':
    case 'distinct_id':
    case 'timestamp':
      if (rest.length === 0) return undefined
      break
    case 'properties':
    case 'user':
      return findPathFault(source, rest)
    case 'page':
      return findChoiceFault(source, rest, PAGE_NAMES)
    case 'context':
      return findChoiceFault(source, rest, CONTEXT_NAMES)
    case 'session':
      return findSessionFault(rest)
  }
  return names.includes('') ? FIELD_MESSAGE : `${FIELD_MESSAGE}, such as ${formatPath('properties', names)}`
}

function findPathFault(source: string, path: readonly string[]): string | undefined {
  if (path.length === 0) return `must name a property: ${source}.<name>`
  const isTooLong = path.length > MAX_PATH || path.some((name) => name.length > MAX_NAME_LENGTH)
  return isTooLong ? `must have at most ${MAX_PATH} names of at most ${MAX_NAME_LENGTH} characters` : undefined
}

function findChoiceFault(source: string, [name, ...rest]: string[], names: readonly string[]): string | undefined {
  if (name !== undefined && rest.length === 0 && names.includes(name)) return undefined
  return `must be ${source}. and one of ${names.join(', ')}`
}

function findSessionFault(path: string[]): string | undefined {
  const [name = '', ...rest] = path
  if (name === 'properties') return findPathFault('session.properties', rest)
  if ((SESSION_EVENTS as readonly string[]).includes(name)) {
    if (rest.length === 0 || rest[0] === 'session') return `must name a field of that event: session.${name}.<field>`
    return findFieldFault(rest)
  }
  if (rest.length === 0 && (SESSION_NAMES as readonly string[]).includes(name)) return undefined
  const events = SESSION_EVENTS.map((one) => `${one}.<field>`).join(', ')
  return `must be session. and one of ${SESSION_NAMES.join(', ')}, properties.<name>, ${events}`
}

/** The value of a text, or the text itself if it is not JSON. */
export function parseJsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
