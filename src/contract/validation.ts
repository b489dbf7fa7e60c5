import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler, type ValueError, ValueErrorType } from '@sinclair/typebox/compiler'
import type { FastifySchemaCompiler } from 'fastify'
import { ScannedBody } from '../model/scan.js'
import { ApiError, type ErrorDetail } from './errors.js'
import { MAX_BATCH } from './limits.js'
import { deepProperties } from './nesting.js'

/** Details that an answer names at most. */
const MAX_DETAILS = 100

/**
 * Checks with code that TypeBox compiles from the schema, nothing coerced and nothing removed; only a query string, which
 * has no types, has its whole numbers read. What is wrong is looked for in a second pass, when it is known that
 * something is.
 */
export function validatorCompiler(maxPropertyDepth: number): FastifySchemaCompiler<TSchema> {
  return ({ schema, httpPart }) => {
    const check = TypeCompiler.Compile(schema)
    return (given: unknown) => {
      const value = httpPart === 'querystring' ? readQuery(schema, given as Record<string, unknown>) : given
      if (value instanceof ScannedBody) return { value }
      const tooDeep = httpPart === 'body' ? deepProperties(value, schema.properties, maxPropertyDepth) : []
      if (tooDeep.length === 0 && check.Check(value)) return { value }
      return { error: describe(check.Errors(value), tooDeep) }
    }
  }
}

function readQuery(schema: TSchema, given: Record<string, unknown>): Record<string, unknown> {
  const value: Record<string, unknown> = { ...given }
  for (const [name, property] of Object.entries<TSchema>(schema.properties)) {
    const text = value[name]
    if (text === undefined && property.default !== undefined) value[name] = property.default
    else if (property.type === 'integer' && typeof text === 'string' && /^\d+$/.test(text)) value[name] = Number(text)
  }
  return value
}

function describe(errors: Iterable<ValueError>, tooDeep: ErrorDetail[]): ApiError {
  const details = new Map<string, ErrorDetail>()
  for (const error of errors) {
    if (error.type === ValueErrorType.ArrayMaxItems && error.path === '/events') {
      return new ApiError('too_many_events', `A batch holds at most ${MAX_BATCH} events. Split it.`)
    }
    const place = placeOf(error.path)
    if (!details.has(place)) details.set(place, { path: error.path, message: message(error) })
    if (details.size === MAX_DETAILS) break
  }
  for (const detail of tooDeep) {
    const place = placeOf(detail.path)
    if (details.size < MAX_DETAILS && !details.has(place)) details.set(place, detail)
  }
  const [first] = details.values()
  const where = first?.path ? `${first.path} ` : 'The body '
  return new ApiError('invalid_request', `${where}${first?.message ?? 'is not valid'}.`, {
    details: [...details.values()],
  })
}

/** One fault per event is enough, so that a batch can name a hundred of them. */
function placeOf(path: string): string {
  return /^\/events\/\d+/.exec(path)?.[0] ?? path
}

function message({ type, value, schema, message }: ValueError): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) return `is unknown: ${parametersOf(schema)}`
  if (type === ValueErrorType.ObjectRequiredProperty || value === undefined) return `is required and ${schema.says}`
  return typeof schema.says === 'string' ? schema.says : message
}

function parametersOf({ properties }: TSchema): string {
  const names = Object.keys(properties)
  return names.length === 0 ? 'this call takes no parameters' : `this call takes ${names.join(', ')}`
}
