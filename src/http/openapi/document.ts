import type { SwaggerOptions } from '@fastify/swagger'
import { Type } from '@sinclair/typebox'
import type { FastifySchema, RouteOptions } from 'fastify'
import { ERROR_STATUS, type ErrorCode } from '../../contract/errors.js'
import { MEDIA_TYPES } from '../../contract/formats.js'
import { type Access, ALLOWED } from '../../keys/keys.js'
import { VERSION } from '../../version.js'
import type { CallDescription } from './description.js'
import { FAILURES } from './failures.js'

const CODES = Object.keys(ERROR_STATUS) as ErrorCode[]
const JSON_TYPE = 'application/json'

const Failure = Type.Object({
  status: Type.Literal(0),
  error: Type.String({ description: 'A message for people.' }),
  code: Type.Union(
    CODES.map((code) => Type.Literal(code)),
    { description: 'A code for programs.' },
  ),
  details: Type.Optional(
    Type.Array(Type.Object({ path: Type.String(), message: Type.String() }), { description: 'The invalid fields.' }),
  ),
})

const HEADERS = {
  'x-request-id':
    'Identifies the request in the service’s log; the client’s own id if it has at most 64 letters, digits, `.`, `_` and `-`.',
  'retry-after': 'When to retry, in seconds.',
}

const IDEMPOTENCY_KEY = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description:
        'For 24 hours, a retry with the same key and body gets the first response again and changes nothing.',
    }),
  ),
})

const DESCRIPTION = `Ingests sessions, user profiles and events, and stores them in ClickHouse.

A project has **secret keys** for servers, **public keys** for browsers, which can only make session calls, **write keys**, which send
events and profile changes and read nothing, and **read keys**, which read and change nothing. Send the key in the header
\`x-api-key\` or, if there is a body, in its field \`apiKey\`. Unknown fields are ignored, and an optional field that is null
counts as absent. Bodies may be compressed once (\`Content-Encoding: gzip\`, \`deflate\`, \`br\` or \`zstd\`).`

const keyScheme = (description: string) => ({ type: 'apiKey', in: 'header', name: 'x-api-key', description }) as const

/** A call with the options of its route. */
interface Call extends CallDescription {
  /** undefined if the call needs no key */
  access: Access | undefined
  isGet: boolean
  schema: Checks
}

/** The schemas of a route. */
interface Checks {
  querystring?: unknown
  params?: unknown
  headers?: unknown
  body?: unknown
  response?: { 200?: unknown }
}

/** Makes the document of the API from its routes. */
export function describeApi(): SwaggerOptions {
  const calls = new Map<string, Call>()
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Tallyhouse',
        version: VERSION,
        description: DESCRIPTION,
        license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
      },
      servers: [{ url: '/' }],
      tags: [
        { name: 'Events', description: 'What happened, exactly as it was sent.' },
        { name: 'Users', description: 'A profile for each `distinct_id`.' },
        { name: 'Sessions', description: 'Called from browsers, with a public or write key.' },
        { name: 'Keys', description: 'The keys of the project, and who changed them.' },
        { name: 'Operation', description: 'For operators of the service.' },
      ],
      components: {
        securitySchemes: {
          secret: keyScheme(
            'A secret key, `sk_…`: every call except the calls of sessions. It must never be in a browser.',
          ),
          public: keyScheme('A public key, `pk_…`: session calls only.'),
          write: keyScheme('A write key, `wk_…`: sends events, profile changes and session calls.'),
          read: keyScheme('A read key, `rk_…`: reads and asks questions, and changes nothing.'),
        },
      },
    },
    convertConstToEnum: false,
    transform: ({ url, route }) => {
      const call = readCall(route)
      if (!call) return { url, schema: { hide: true } }
      calls.set(call.id, call)
      return { url, schema: describe(call) }
    },
    transformObject: (document) => {
      if (!('openapiObject' in document)) throw new Error('the document is OpenAPI 3.1')
      const { openapiObject } = document
      // The plugin's types do not allow a bare `{}` for any value.
      complete(openapiObject as unknown as Document, calls)
      return openapiObject
    },
  }
}

/** @returns null for a route that is not in the document */
function readCall({ method, config, schema = {} }: RouteOptions): Call | null {
  if (!config?.openapi) return null
  return { ...config.openapi, access: config.access, isGet: method === 'GET', schema: schema as Checks }
}

/** A route's checks and its documentation. Responses are added later, with their headers and examples. */
function describe({ schema: { querystring, params, headers, body }, ...call }: Call): FastifySchema {
  return {
    operationId: call.id,
    tags: [call.tag],
    summary: call.summary,
    ...(call.description !== undefined && { description: call.description }),
    security: call.access === undefined ? [] : ALLOWED[call.access].map((kind) => ({ [kind]: [] })),
    ...(querystring !== undefined && { querystring: withoutDefaults(toOpenApiSchema(querystring)) }),
    ...(params !== undefined && { params: toOpenApiSchema(params) }),
    ...(headers !== undefined && { headers: toOpenApiSchema(headers) }),
    ...(body !== undefined && { body: toOpenApiSchema(call.body ?? body) }),
    ...(call.isIdempotent && { headers: toOpenApiSchema(IDEMPOTENCY_KEY) }),
  }
}

/** Plain JSON Schema, in which the error message serves as the description. */
function toOpenApiSchema(schema: unknown): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (_name, value) => {
    if (typeof value?.message !== 'string') return value
    const { message, ...rest } = value as { message: string }
    return { description: `${message.charAt(0).toUpperCase()}${message.slice(1)}.`, ...rest }
  })
}

/** Parameters with a default are not required. */
function withoutDefaults(schema: JsonSchema): JsonSchema {
  const { required = [], properties = {} } = schema
  return { ...schema, required: required.filter((name) => properties[name]?.default === undefined) }
}

interface JsonSchema {
  required?: string[]
  properties?: Record<string, { default?: unknown }>
}

interface Document {
  components: Record<string, object>
  paths: Record<string, Record<string, Operation>>
}

interface Operation {
  operationId: string
  parameters?: { name: string; example?: unknown }[]
  requestBody?: { content: Record<string, object> }
  responses: Record<string, object>
}

/** Adds the examples, and the responses of every call. */
function complete({ components, paths }: Document, calls: ReadonlyMap<string, Call>): void {
  components.schemas = { Failure: toOpenApiSchema(Failure) }
  components.examples = Object.fromEntries(
    CODES.map((code) => [code, { summary: FAILURES[code].when, value: failure(code) }]),
  )
  components.headers = Object.fromEntries(
    Object.entries(HEADERS).map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
  )
  for (const operation of Object.values(paths).flatMap((path) => Object.values(path))) {
    const call = calls.get(operation.operationId)
    if (!call) throw new Error(`no route is ${operation.operationId}`)
    for (const parameter of operation.parameters ?? []) {
      const example = call.parameters?.[parameter.name]
      if (example !== undefined) parameter.example = example
    }
    if (operation.requestBody) addExample(operation.requestBody.content, call)
    operation.responses = { 200: success(call), ...failures(call) }
  }
}

function addExample(content: Record<string, object>, { access, example, more }: Call): void {
  if (typeof example === 'string') {
    delete content[JSON_TYPE]
    content[TYPES.ndjson] = { schema: { type: 'string', description: 'One event per line.' }, example }
    return
  }
  content[JSON_TYPE] = { ...content[JSON_TYPE], ...examples(example, more, ({ body }) => body) }
  if (access !== 'session') return
  // navigator.sendBeacon sends text/plain.
  const schema = { type: 'string', contentMediaType: JSON_TYPE, description: 'The same as JSON.' }
  content['text/plain'] = { schema, example: JSON.stringify(example) }
}

type OneMore = NonNullable<Call['more']>[string]

/** A single example as `example`, several by name as `examples`. */
function examples(example: unknown, more: Call['more'], choose: (one: OneMore) => object): object {
  if (!more) return { example }
  const named = Object.entries(more).map(([name, one]) => [name, { value: choose(one) }])
  return { examples: { first: { value: example }, ...Object.fromEntries(named) } }
}

/** Media types of responses that are not JSON. */
const TYPES = { text: 'text/plain', ndjson: 'application/x-ndjson', 'event-stream': 'text/event-stream' }

/** The first fields of every successful JSON response. */
const SUCCESS = { status: 1, error: null }

function success(call: Call): object {
  const { headers = {}, formats = [] } = call
  const content = successContent(call)
  for (const format of formats) {
    const contentType = MEDIA_TYPES[format].contentType.replace(/;.*/, '')
    content[contentType] = { schema: { type: 'string', description: `The rows as ${format}.` } }
  }
  const described = Object.entries(headers).map(([name, description]) => [
    name,
    { description, schema: { type: 'string' } },
  ])
  return {
    description: 'Done.',
    headers: { ...reference('headers', ['x-request-id']), ...Object.fromEntries(described) },
    content,
  }
}

function successContent({ id, schema: { response: serialized }, response = {}, more }: Call): Record<string, object> {
  if ('type' in response) return { [TYPES[response.type]]: { schema: { type: 'string' }, example: response.example } }
  const { schema = serialized?.[200], example } = response
  if (!schema) throw new Error(`${id} needs a schema of its response`)
  const shown = examples({ ...SUCCESS, ...example }, more, ({ response }) => ({ ...SUCCESS, ...response }))
  return { [JSON_TYPE]: { schema: toOpenApiSchema(schema), ...shown } }
}

/** One response per status, with an example for each of its error codes. */
function failures(call: Call): Record<string, object> {
  const known = new Set(listErrors(call))
  const responses: Record<string, object> = {}
  for (const status of new Set(Object.values(ERROR_STATUS))) {
    const codes = CODES.filter((code) => ERROR_STATUS[code] === status && known.has(code))
    if (codes.length === 0) continue
    const headers = status === 429 || status === 503 ? ['x-request-id', 'retry-after'] : ['x-request-id']
    responses[status] = {
      description: codes.map((code) => `\`${code}\`: ${FAILURES[code].when}`).join('\n\n'),
      headers: reference('headers', headers),
      content: {
        [JSON_TYPE]: { schema: { $ref: '#/components/schemas/Failure' }, examples: reference('examples', codes) },
      },
    }
  }
  return responses
}

function listErrors({ isGet, access, schema, example, isIdempotent, errors = [] }: Call): ErrorCode[] {
  const all: ErrorCode[] = [...errors]
  if (schema.querystring || schema.params) all.push('invalid_request')
  if (access) all.push('unauthorized', 'wrong_key_kind', 'rate_limited', 'internal', 'store_damaged', 'unavailable')
  // The page's calls with a sign-in can fail for this, except GETs.
  if (!isGet && (access === 'manage' || access === 'read')) all.push('invalid_csrf_token')
  if (example) all.push('invalid_json', 'invalid_request', 'payload_too_large', 'unsupported_media_type')
  if (isIdempotent) all.push('idempotency_conflict')
  return all
}

function failure(code: ErrorCode): object {
  const { message, path } = FAILURES[code]
  return { status: 0, error: message, code, ...(path !== undefined && { details: [{ path, message }] }) }
}

function reference(kind: 'headers' | 'examples', names: string[]): object {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/${kind}/${name}` }]))
}
