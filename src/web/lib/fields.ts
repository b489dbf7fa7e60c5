import type { FieldName, Scalar } from '../../contract/questions.js'

const PLAIN = ['event', 'distinct_id', 'timestamp']

/** A field as it is written in a text field and as a parameter: one of a list of names is JSON. */
export function formatField(field: FieldName): string {
  return typeof field === 'string' ? field : JSON.stringify(field)
}

/** What somebody typed as a field; a name by itself is that of a property. */
export function parseField(text: string): FieldName {
  const trimmed = text.trim()
  if (trimmed === '' || PLAIN.includes(trimmed) || /^(properties|user)\../s.test(trimmed)) return trimmed
  if (trimmed.startsWith('[')) {
    const list = parseJson(trimmed)
    if (Array.isArray(list) && list.length > 0 && list.every((name) => typeof name === 'string')) return list
  }
  return toField('properties', trimmed)
}

/** The field of a name as it is in the data, which may have dots. */
export function toField(source: 'properties' | 'user', name: string): FieldName {
  return name.includes('.') ? [source, name] : `${source}.${name}`
}

/** A field as people call it: `price`, not `properties.price`. */
export function labelField(field: FieldName): string {
  const [source, ...names] = typeof field === 'string' ? field.split('.') : field
  if (names.length === 0) return source === 'distinct_id' ? 'user' : (source ?? '')
  return source === 'user' ? `user’s ${names.join(' › ')}` : names.join(' › ')
}

/** A value as it is typed: a text by itself, but in quotes where it could be taken for something else. */
export function formatValue(value: Scalar): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  return value === '' || value.startsWith('"') || value.trim() !== value || isScalar(parseJson(value))
    ? JSON.stringify(value)
    : value
}

/** What somebody typed as a value: `5` is a number, `"5"` and `five` are texts. */
export function parseValue(text: string): Scalar {
  const value = parseJson(text)
  return isScalar(value) ? value : text
}

function isScalar(value: unknown): value is Scalar {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A value of a breakdown, as a line is called. */
export function labelBreakdown(values: unknown[]): string {
  if (values.length === 1 && values[0] === '$other') return 'Other'
  return values.map(labelValue).join(', ')
}

function labelValue(value: unknown): string {
  if (value === null) return '(not set)'
  if (value === '') return '(empty)'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
