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

/** The field of a property from its exact name and the names within it, any of which may contain dots. */
export function toField(source: 'properties' | 'user', names: readonly string[]): FieldName {
  return names.some((name) => name.includes('.')) ? [source, ...names] : [source, ...names].join('.')
}

/** Formats a value for a text field; a string that would parse as another type is quoted. */
export function formatValue(value: Scalar): string {
  if (typeof value !== 'string') return JSON.stringify(value)
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

/** Parses a value as typed: `5` is a number; `"5"` and `five` are strings. */
export function parseValue(text: string): Scalar {
  const value = parseJson(text)
  return isScalar(value) ? value : text
}

export function isScalar(value: unknown): value is Scalar {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}
