import { Kind, OptionalKind } from '@sinclair/typebox'
import { type ObjectSchema, type Parsed, Refused, type Schema, When, withoutNull } from './fields.js'

/** How a caller reads values: how strictly, and how it handles faults. */
export interface Reader {
  /**
   * Checks a value that is not an object. Items of an array are checked one by one, after the array.
   * @returns whether it is valid; if not, its faults have been reported
   */
  check(schema: Schema, value: unknown, path: string): boolean
  /** @param message a predicate: it follows the path in a sentence */
  fault(path: string, message: string): void
  /** Called with each object. @param known the names that its fields may have, once it is read */
  note?(path: string, object: Json, known: readonly string[]): void
  /**
   * whether the value is still being edited: fields that depend on another field may be missing, and are kept if not
   * needed
   */
  isDraft?: boolean
}

type Json = Record<string, unknown>

/**
 * Reads an object by its schema: reports every fault with its path and fills in the defaults. Fields that are null
 * count as absent; unknown ones are left out. An invalid value is replaced by one of the right type, so that rules
 * between fields can still be checked.
 */
export function readFields<S extends ObjectSchema>(schema: S, value: unknown, path: string, reader: Reader): Parsed<S> {
  return readObject(schema, value, path, reader) as Parsed<S>
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readObject(schema: ObjectSchema, given: unknown, path: string, reader: Reader): Json {
  const value = isObject(given) ? given : {}
  if (value !== given) reader.fault(path, schema.message)
  const result: Json = {}
  const known: string[] = []
  reader.note?.(path, value, known)
  for (const [name, field] of Object.entries(schema.properties)) {
    const given = getField(value, name)
    if (!isApplicable(field, result, reader)) continue
    known.push(name)
    if (given !== undefined) readField(result, name, { field, given, path, reader })
    else if (field.default !== undefined && !isPending(field, reader)) result[name] = structuredClone(field.default)
    else if (isRequired(field) && !isPending(field, reader)) {
      reader.fault(`${path}/${name}`, `is required and ${field.message}`)
      // If an object is missing, so are its fields.
      result[name] =
        field[Kind] === 'Object' ? readObject(field as never, {}, `${path}/${name}`, reader) : standIn(field)
    }
  }
  const refused: Record<string, string> = schema[Refused as never]
  for (const [name, message] of Object.entries(refused)) {
    known.push(name)
    const given = getField(value, name)
    const isEmpty = Array.isArray(given) && given.length === 0
    if (given !== undefined && !isEmpty) reader.fault(`${path}/${name}`, message)
  }
  return result
}

/** The value of a field; undefined if it is absent or null. */
function getField(object: Json, name: string): unknown {
  return Object.hasOwn(object, name) ? (object[name] ?? undefined) : undefined
}

interface FieldInput {
  field: Schema
  given: unknown
  path: string
  reader: Reader
}

function readField(result: Json, name: string, { field, given, path, reader }: FieldInput): void {
  const schema = withoutNull(field)
  const value = readValue(schema, given, `${path}/${name}`, reader)
  const read = value === undefined ? (field.default ?? standIn(field)) : value
  if (read !== undefined) result[name] = read
}

/** @returns undefined for an invalid value */
function readValue(schema: Schema, value: unknown, path: string, reader: Reader): unknown {
  if (schema[Kind] === 'Object') return readObject(schema as ObjectSchema, value, path, reader)
  if (schema[Kind] === 'Union') {
    const full: ObjectSchema = schema.anyOf[1]
    const [first = ''] = Object.keys(full.properties)
    return readObject(full, typeof value === 'string' ? { [first]: value } : value, path, reader)
  }
  if (!reader.check(schema, value, path)) return undefined
  if (schema[Kind] !== 'Array') return value
  return (value as unknown[]).map((item, i) => readValue(schema.items, item, `${path}/${i}`, reader))
}

function isApplicable(field: Schema, before: Json, { isDraft }: Reader): boolean {
  const condition = field[When as never] as { field: string; values: readonly unknown[] } | undefined
  return condition === undefined || isDraft === true || condition.values.includes(before[condition.field])
}

/** Whether a field may still be missing. */
function isPending(field: Schema, { isDraft }: Reader): boolean {
  return isDraft === true && When in field
}

function isRequired(field: Schema): boolean {
  return field[OptionalKind] === undefined || When in field
}

function standIn(field: Schema): unknown {
  if (!isRequired(field)) return undefined
  const { type, minimum } = withoutNull(field)
  if (type === 'array') return []
  if (type === 'object') return {}
  return type === 'integer' || type === 'number' ? minimum : ''
}
