import { formatExactJson } from '../../contract/exact-json.js'
import type { FieldName, Scalar } from '../../contract/questions.js'
import { parseJson } from './json-text.js'

const PLAIN = ['event', 'distinct_id', 'timestamp']

/** Formats a field for a text field and for a query parameter; a list of names becomes JSON. */
export function formatField(field: FieldName): string {
  return typeof field === 'string' ? field : JSON.stringify(field)
}

/** Parses a field as typed; a plain name stands for a property. */
export function parseField(text: string): FieldName {
  const trimmed = text.trim()
  if (trimmed === '' || PLAIN.includes(trimmed) || /^(properties|user|session|page|context)\../s.test(trimmed))
    return trimmed
  if (trimmed.startsWith('[')) {
    const list = parseJson(trimmed)
    if (Array.isArray(list) && list.length > 0 && list.every((name) => typeof name === 'string')) return list
  }
  return toField('properties', [trimmed])
}

/**
 * The field of a property, from its exact name and the names within it. A name that would not survive being typed, such
 * as one with a dot or a space at its end, makes it a list.
 */
export function toField(source: 'properties' | 'user', names: readonly string[]): FieldName {
  const isPlain = names.every((name) => name !== '' && name === name.trim() && !name.includes('.'))
  return isPlain ? [source, ...names].join('.') : [source, ...names]
}

/** Fields that are numbers, apart from properties. */
export const NUMBER_FIELDS: readonly string[] = [
  'timestamp',
  'session.start',
  'session.seconds',
  'session.events',
  'session.pages',
  'session.duration',
]
const BOOLEAN_FIELDS = ['context.bot', 'session.bounced']
/** The event of a session that a field is taken from. */
const OF_SESSION_EVENT = /^session\.(?:first|last|entry|exit)\./
const PROPERTY = /^(?:properties|user|session\.properties)\./

/** Whether the values of a field are always texts, such as the id of a user; never those of a property. */
export function isTextField(field: FieldName): boolean {
  const name = (typeof field === 'string' ? field : field.join('.')).replace(OF_SESSION_EVENT, '')
  return name !== '' && !PROPERTY.test(name) && !NUMBER_FIELDS.includes(name) && !BOOLEAN_FIELDS.includes(name)
}

/** Formats a value for a text field; a string that would parse as another type is quoted. */
export function formatValue(value: Scalar): string {
  if (typeof value !== 'string') return formatExactJson(value)
  return value === '' || value.startsWith('"') || value.trim() !== value || isScalar(parseJson(value))
    ? JSON.stringify(value)
    : value
}

/**
 * Whether a typed text is a whole value rather than the beginning of one: a number, or a possible id, because the
 * suggestions need not contain every id.
 */
export function isWholeValue(text: string): boolean {
  return /\d/.test(text) || isScalar(parseJson(text))
}

/**
 * Parses a value as typed: `5` is a number; `"5"` and `five` are strings.
 * @param isText whether the field has only texts, so that `5` is one, too
 */
export function parseValue(text: string, isText = false): Scalar {
  const value = parseJson(text)
  if (!isScalar(value)) return text
  return isText && value !== null ? (typeof value === 'string' ? value : text.trim()) : value
}

export function isScalar(value: unknown): value is Scalar {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}
