import type { TSchema } from '@sinclair/typebox'
import type { ErrorCode } from '../../contract/errors.js'
import type { RowFormat } from '../../contract/formats.js'
import type { Access } from '../../keys/keys.js'

/** The documentation of a call, in addition to its path and the schemas of its route. */
export interface Call {
  /** unique; generated clients name their functions by it */
  id: string
  tag: 'Events' | 'Questions' | 'Users' | 'Sessions' | 'Keys' | 'Operation'
  summary: string
  description?: string
  /** null if the call needs no key */
  access: Access | null
  /** an example of the body; a text for a body of lines */
  example?: object | string
  /** a stricter schema of the body than the one that the route validates */
  body?: TSchema
  /** further examples of the body and its response, by name */
  more?: Record<string, { body: object; response: unknown }>
  /** examples of path and query parameters, by name */
  parameters?: Record<string, string | number>
  isIdempotent?: true
  /** the response with status 200; a word for its type if it is not JSON */
  response: { schema: TSchema | 'text' | 'ndjson' | 'event-stream'; example: unknown }
  /** other formats in which that response is available */
  formats?: readonly RowFormat[]
  /** response headers of a success, with their descriptions */
  headers?: Record<string, string>
  /**
   * errors of this call only; those of every call with a key, a body or an idempotency key are
   * added
   */
  errors: ErrorCode[]
}
