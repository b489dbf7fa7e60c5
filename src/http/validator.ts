import { type Static, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import type { FastifySchemaCompiler } from 'fastify'
import { type ApiError, invalidFields } from '../contract/errors.js'
import { compileCheck } from '../contract/validation.js'
import { ScannedBody } from '../model/scanned-body.js'

/**
 * Fastify's validator. Nothing is coerced and nothing removed, except that a query string, which
 * has no types, gets its integers and defaults. A body that the scanner has found valid is not
 * checked again.
 * @param maxPropertyDepth levels of objects and arrays that properties may have
 */
export function validatorCompiler(maxPropertyDepth: number): FastifySchemaCompiler<TSchema> {
  return ({ schema, httpPart }) => {
    const check = compileCheck(schema, httpPart === 'body' ? maxPropertyDepth : null)
    return (given: unknown) => {
      const value = httpPart === 'querystring' ? readQuery(schema, given as Record<string, unknown>) : given
      if (value instanceof ScannedBody) return { value }
      const error = check(value)
      if (!error) return { value }
      return {
        error: httpPart === 'querystring' ? nameRepeated(error, schema, given as Record<string, unknown>) : error,
      }
    }
  }
}

/** Names a parameter that is given more than once: the type error of its list of values would be misleading. */
function nameRepeated(error: ApiError, { properties }: TSchema, query: Record<string, unknown>): ApiError {
  const details = (error.details ?? []).map(({ path, message }) => {
    const name = path.slice(1)
    const isRepeated = Object.hasOwn(properties, name) && Array.isArray(query[name])
    return { path, message: isRepeated ? 'is given more than once' : message }
  })
  return invalidFields(details)
}

/** The schema of a body that the scanner may have accepted: the route then gets a ScannedBody instead of the value. */
export function orScanned<S extends TSchema>(schema: S): TUnsafe<Static<S> | ScannedBody> {
  return Type.Unsafe<Static<S> | ScannedBody>(schema)
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
