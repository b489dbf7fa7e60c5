import type { FieldName } from '../contract/filters.js'
import { FIELD_MESSAGE } from '../contract/question-schemas.js'
import { Faults } from './faults.js'

const MAX_NAME_LENGTH = 1000
const MAX_PATH = 64

/** Splits a field into its source and the path to a value within it. */
export function splitField(field: FieldName): string[] {
  return typeof field === 'string' ? field.split('.') : field
}

/** Formats a field as in questions: as JSON if a name contains a dot. */
export function formatPath(source: 'properties' | 'user', names: readonly string[]): string {
  const field = toField(source, names)
  return typeof field === 'string' ? field : JSON.stringify(field)
}

/** The field of a path: a list if a name contains a dot. */
export function toField(source: 'properties' | 'user', names: readonly string[]): FieldName {
  return names.some((name) => name.includes('.')) ? [source, ...names] : [source, ...names].join('.')
}

/**
 * Parses a field from a query parameter: written as in questions, or as a JSON array.
 * @throws ApiError `invalid_request`
 */
export function parseFieldText(text: string): FieldName {
  const field = text.startsWith('[') ? parseJson(text) : text
  const faults = new Faults()
  const fault = findFieldFault(field)
  if (fault !== undefined) faults.add('/field', fault)
  faults.throwIfAny()
  return field as FieldName
}

/** Returns what is wrong with the name of a field; undefined if it is valid. */
export function findFieldFault(value: unknown): string | undefined {
  const names: unknown = typeof value === 'string' ? splitField(value) : value
  if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name === 'string')) {
    return `${FIELD_MESSAGE}; write a name that contains a dot as an array: ["properties","a.b"]`
  }
  const [source = '', ...rest] = names as string[]
  if (source !== 'properties' && source !== 'user') {
    const isPlain = rest.length === 0 && ['event', 'distinct_id', 'timestamp'].includes(source)
    if (isPlain) return undefined
    return names.includes('') ? FIELD_MESSAGE : `${FIELD_MESSAGE}, such as ${formatPath('properties', names)}`
  }
  if (rest.length === 0) return `must name a property: ${source}.<name>`
  const isTooLong = rest.length > MAX_PATH || rest.some((name) => name.length > MAX_NAME_LENGTH)
  return isTooLong ? `must have at most ${MAX_PATH} names of at most ${MAX_NAME_LENGTH} characters` : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
