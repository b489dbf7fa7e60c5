import { Kind, type TSchema } from '@sinclair/typebox'
import { TypeCompiler, type ValueError, ValueErrorType } from '@sinclair/typebox/compiler'
import { ApiError, type ErrorDetail, invalidFields } from './errors.js'
import { describeNameFault, describeTimestampFault, isName, MAX_BATCH } from './limits.js'
import { deepProperties } from './property-depth.js'
import { isObject } from './read-fields.js'
import { isReserved } from './user-names.js'

/** Maximum number of invalid fields that one error names. */
export const MAX_DETAILS = 100

/** @returns null for a valid value, otherwise the error to send */
export type Check = (value: unknown) => ApiError | null

/**
 * Compiles a schema. The details of an error are collected in a second pass, so valid values
 * are checked fast.
 * @param maxPropertyDepth levels that the value's properties may have; null to skip that check
 */
export function compileCheck(schema: TSchema, maxPropertyDepth: number | null): Check {
  const check = TypeCompiler.Compile(schema)
  return (value) => {
    const tooDeep = maxPropertyDepth === null ? [] : deepProperties(value, schema.properties, maxPropertyDepth)
    return tooDeep.length === 0 && check.Check(value) ? null : describe(check.Errors(value), tooDeep)
  }
}

function describe(errors: Iterable<ValueError>, tooDeep: ErrorDetail[]): ApiError {
  const details = new Map<string, ErrorDetail>()
  for (const error of withInner(errors)) {
    if (error.type === ValueErrorType.ArrayMaxItems && error.path === '/events') {
      return tooManyEvents()
    }
    const place = toFaultKey(error.path)
    if (!details.has(place)) details.set(place, { path: error.path, message: message(error) })
    if (details.size === MAX_DETAILS) break
  }
  for (const detail of tooDeep) {
    const place = toFaultKey(detail.path)
    if (details.size < MAX_DETAILS && !details.has(place)) details.set(place, detail)
  }
  return invalidFields([...details.values()])
}

/** Replaces an error of an object or array that may be null by the errors inside it. */
function* withInner(errors: Iterable<ValueError>): Generator<ValueError> {
  for (const error of errors) {
    const variants: TSchema[] = error.type === ValueErrorType.Union ? error.schema.anyOf : []
    const type = Array.isArray(error.value) ? 'array' : isObject(error.value) ? 'object' : null
    const i = variants.findIndex((variant) => variant.type === type)
    const inner = error.errors[i]
    if (inner) yield* withInner(inner)
    else yield error
  }
}

export function tooManyEvents(): ApiError {
  return new ApiError('too_many_events', `A batch holds at most ${MAX_BATCH} events. Split it.`)
}

/** Only the first fault of an event is reported, so that the details can name a hundred events. */
function toFaultKey(path: string): string {
  return /^\/events\/\d+/.exec(path)?.[0] ?? path
}

function message({ type, value, schema, message }: ValueError): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) return `is unknown: ${describeParameters(schema)}`
  if (type === ValueErrorType.ObjectRequiredProperty || value === undefined) return `is required and ${schema.message}`
  return describeFault(schema, value) ?? message
}

/** For kinds with several rules: names only the rule that the value breaks. */
const FAULTS: Record<string, (value: unknown) => string> = {
  Name: describeNameFault,
  UserName: describeUserNameFault,
  LinkName: describeUserNameFault,
  Timestamp: describeTimestampFault,
}

/** Says what is wrong with a value that does not match a schema; undefined if the schema has no message for it. */
function describeFault(schema: TSchema, value: unknown): string | undefined {
  const [required = schema] = (schema.anyOf as TSchema[] | undefined) ?? []
  const fault = FAULTS[required[Kind]]?.(value)
  return fault === undefined || fault === required.message ? schema.message : fault
}

/** Also describes placeholders, which are valid as users but cannot be linked. */
function describeUserNameFault(value: unknown): string {
  if (!isName(value)) return describeNameFault(value)
  return isReserved(value)
    ? 'must be the name of a user: $anonymous and names that begin with $group: or $visitor: are reserved'
    : 'must be the name of a user: clients send this if they have no id, so it cannot be linked'
}

function describeParameters({ properties, title }: TSchema): string {
  const names = Object.keys(properties)
  if (title !== undefined) return `a ${title.toLowerCase()} has ${names.join(', ')}`
  return names.length === 0 ? 'this call takes no parameters' : `this call takes ${names.join(', ')}`
}
