import type { TSchema } from '@sinclair/typebox'
import type { FastifyContextConfig, FastifySchema } from 'fastify'
import type { ErrorCode } from '../../contract/errors.js'
import type { RowFormat } from '../../contract/formats.js'
import type { DescribeChange } from '../audit.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** the call's description in the API's document; a route without one is not in the document */
    openapi?: CallDescription
  }
}

type Tag = 'Events' | 'Questions' | 'Users' | 'Sessions' | 'Keys' | 'Operation'

/** The description of a call, in addition to the path, access and schemas of its route. */
export interface CallDescription {
  /** unique; generated clients name their functions by it */
  id: string
  tag: Tag
  summary: string
  description?: string
  /** an example of the body; a text for a body of lines */
  example?: object | string
  /** a stricter schema of the body than the route validates */
  body?: TSchema
  /** further examples of the body and its response, by name */
  more?: Record<string, { body: object; response: object }>
  /** examples of path and query parameters, by name */
  parameters?: Record<string, string | number>
  isIdempotent?: true
  response?:
    | {
        /** default: the schema by which the route serializes */
        schema?: TSchema
        /** the fields other than `status` and `error`; default: none */
        example?: object
      }
    | { type: 'text' | 'ndjson' | 'event-stream'; example: string }
  /** other formats in which the response is available */
  formats?: readonly RowFormat[]
  /** response headers of a success, with their descriptions */
  headers?: Record<string, string>
  /** errors of this call only; those that follow from a key, a body, parameters or an idempotency key are added */
  errors?: ErrorCode[]
}

/** A route's options other than its handler, and the description of its call. */
interface DescribedRoute<Schema> extends Omit<CallDescription, 'id' | 'tag'> {
  /** default: the tag of the group */
  tag?: Tag
  schema: Schema
  config?: FastifyContextConfig
  audit?: DescribeChange
}

/** Makes the options of the routes of a group. Their names become the ids of the calls. */
export function describeCalls<Schemas extends Record<string, FastifySchema>>(
  tag: Tag,
  routes: { [Id in keyof Schemas]: DescribedRoute<Schemas[Id]> },
): { [Id in keyof Schemas]: { schema: Schemas[Id]; config: FastifyContextConfig } } {
  const all = Object.entries<DescribedRoute<FastifySchema>>(routes)
  const described = all.map(([id, { schema, config, audit, ...call }]) => {
    return [id, { schema, config: { ...config, ...(audit && { audit }), openapi: { id, tag, ...call } } }]
  })
  return Object.fromEntries(described)
}

/** Epoch ms, for examples. */
export const EXAMPLE_TIME = 1_733_788_800_000
export const EXAMPLE_EVENT = {
  eventId: '0193ae30-7c42-7000-8000-00005eed1234',
  event: 'signed up',
  distinct_id: 'ada',
  properties: { plan: 'pro', price: 9.9 },
  timestamp: EXAMPLE_TIME,
}
