import { deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { PUBLIC_KEY, SECRET_KEY } from '../helper.js'
import { brokenBytes, jsonText, name, numberText, objectText, spell, style, text } from './texts.js'

export interface Request {
  method: string
  /** path and query */
  path: string
  headers: Record<string, string>
  body: Buffer | null
}

interface Call {
  method: string
  path: fc.Arbitrary<string>
  key: string
  /** the members of a valid body; null: there is no body */
  body: Record<string, fc.Arbitrary<string>> | null
}

const path = (given: string) => fc.constant(given)
const ended = (start: string) => text.map((id) => start + encodeURIComponent(id.toWellFormed()))
const nameText = fc.tuple(name, style).map(([given, how]) => spell(given, how))
const eventText = fc
  .record(
    { event: nameText, distinct_id: nameText, session_id: nameText, properties: objectText, timestamp: numberText },
    { requiredKeys: ['event', 'distinct_id', 'properties', 'timestamp'] },
  )
  .map((members) => objectOf(Object.entries(members)))
const operations = fc
  .uniqueArray(
    fc.constantFrom('$set', '$add', '$append', '$set_once', '$unset', '$union', '$remove', '$other', '__proto__'),
  )
  .chain((keys) => fc.tuple(...keys.map((key) => fc.oneof(objectText, jsonText).map((value) => [key, value] as const))))
  .map(objectOf)
const queryValue = fc.oneof(
  text,
  numberText,
  fc.constantFrom('', '1', '50', '10000', '10001', '0x10', '1e3', ' 1', '+1', '1.0', '٣'),
)
/** Mostly a known name, because any other is refused, whatever else the request contains. */
const parameterName = (names: string[]) =>
  fc.oneof({ weight: 15, arbitrary: fc.constantFrom(...names) }, { weight: 1, arbitrary: text })
const query = (...names: string[]) =>
  fc
    .array(fc.tuple(parameterName(names), queryValue), { maxLength: 4 })
    .map((pairs) =>
      new URLSearchParams(
        pairs.map(([key, value]): [string, string] => [key.toWellFormed(), value.toWellFormed()]),
      ).toString(),
    )
const listed = (start: string, ...names: string[]) => query(...names).map((given) => `${start}?${given}`)
const session = { distinct_id: nameText, session_id: nameText, properties: objectText, duration: numberText }

/** Every call of the contract. */
const CALLS: Call[] = [
  {
    method: 'POST',
    path: path('/public/track'),
    key: SECRET_KEY,
    body: {
      event: nameText,
      distinct_id: nameText,
      session_id: nameText,
      properties: objectText,
      timestamp: numberText,
    },
  },
  {
    method: 'POST',
    path: path('/public/track/batch'),
    key: SECRET_KEY,
    body: {
      events: fc.array(fc.oneof(eventText, eventText, jsonText), { maxLength: 5 }).map((all) => `[${all.join()}]`),
    },
  },
  {
    method: 'GET',
    path: listed(
      '/public/events',
      'limit',
      'page',
      'cursor',
      'event',
      'distinct_id',
      'session_id',
      'from',
      'to',
      'order',
      'format',
    ),
    key: SECRET_KEY,
    body: null,
  },
  { method: 'GET', path: ended('/public/events/'), key: SECRET_KEY, body: null },
  { method: 'PUT', path: ended('/public/events/'), key: SECRET_KEY, body: { properties: objectText } },
  { method: 'DELETE', path: ended('/public/events/'), key: SECRET_KEY, body: null },
  {
    method: 'POST',
    path: path('/public/users/identify'),
    key: SECRET_KEY,
    body: { distinct_id: nameText, properties: objectText },
  },
  { method: 'POST', path: path('/public/users/profile'), key: SECRET_KEY, body: { distinct_id: nameText, operations } },
  { method: 'GET', path: listed('/public/users', 'limit', 'page'), key: SECRET_KEY, body: null },
  { method: 'GET', path: ended('/public/users/'), key: SECRET_KEY, body: null },
  { method: 'DELETE', path: ended('/public/users/'), key: SECRET_KEY, body: null },
  { method: 'POST', path: path('/public/sessions/start'), key: PUBLIC_KEY, body: session },
  { method: 'POST', path: path('/public/sessions/update'), key: PUBLIC_KEY, body: session },
  { method: 'POST', path: path('/public/sessions/end'), key: PUBLIC_KEY, body: session },
  { method: 'GET', path: ended('/public/sessions/'), key: SECRET_KEY, body: null },
  {
    method: 'GET',
    path: listed('/public/sessions', 'limit', 'page', 'distinct_id', 'state', 'from', 'to'),
    key: SECRET_KEY,
    body: null,
  },
  { method: 'GET', path: ended('/public/users/').map((path) => `${path}/export`), key: SECRET_KEY, body: null },
]

function objectOf(members: readonly (readonly [string, string])[]): string {
  return `{${members.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`
}

/** A valid body; one with missing, mistyped or additional members; or something else. */
function bodyOf(members: Record<string, fc.Arbitrary<string>>): fc.Arbitrary<Buffer> {
  const some = Object.entries(members).map(([key, good]) =>
    fc
      .oneof(
        { weight: 8, arbitrary: good },
        { weight: 1, arbitrary: jsonText },
        { weight: 1, arbitrary: fc.constant(null) },
      )
      .map((value) => (value === null ? [] : [[key, value] as const])),
  )
  const others = fc.array(fc.tuple(text, jsonText), { maxLength: 2 })
  const object = fc
    .tuple(others, ...some)
    .map(([before, ...rest]) => Buffer.from(objectOf([...before, ...rest.flat()])))
  return fc.oneof(
    { weight: 8, arbitrary: object },
    { weight: 1, arbitrary: brokenBytes },
    { weight: 1, arbitrary: jsonText.map((given) => Buffer.from(given)) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)) },
    {
      weight: 1,
      arbitrary: fc.tuple(object, fc.nat()).map(([whole, at]) => whole.subarray(0, at % (whole.length + 1))),
    },
    { weight: 1, arbitrary: fc.constantFrom('[', '{"a":').map((open) => Buffer.from(open.repeat(10_000))) },
  )
}

/** Values that may be in a header: visible ASCII, blanks and Latin-1. */
const headerValue = fc
  .array(fc.oneof(fc.integer({ min: 0x20, max: 0x7e }), fc.integer({ min: 0x80, max: 0xff })), { maxLength: 20 })
  .map((units) => String.fromCharCode(...units).trim())
const header = fc.oneof(
  fc.tuple(fc.constant('idempotency-key'), headerValue),
  fc.tuple(
    fc.constant('content-type'),
    fc.oneof(headerValue, fc.constantFrom('text/plain', 'application/json; charset=x')),
  ),
  fc.tuple(
    fc.constant('accept'),
    fc.oneof(headerValue, fc.constantFrom('text/csv', 'application/x-ndjson;q=2', '*/*;q=a')),
  ),
  fc.tuple(fc.constant('accept-encoding'), headerValue),
  fc.tuple(fc.constant('x-request-id'), headerValue),
  fc.tuple(fc.constant('origin'), headerValue),
  fc.tuple(
    fc.constantFrom('x-forwarded-for', 'x-http-method-override', 'if-none-match', 'range', 'cookie'),
    headerValue,
  ),
)

const ENCODINGS: Record<string, (body: Buffer) => Buffer> = {
  gzip: (body) => gzipSync(body),
  deflate: (body) => deflateSync(body),
  br: (body) => body,
  zstd: (body) => body,
  'gzip, gzip': (body) => body,
}

/** A call of the contract with almost anything in it; most of them pass validation. */
export const request: fc.Arbitrary<Request> = fc
  .constantFrom(...CALLS)
  .chain(({ method, path, key, body }) =>
    fc.record({
      method: fc.oneof(
        { weight: 20, arbitrary: fc.constant(method) },
        { weight: 1, arbitrary: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH') },
      ),
      path,
      key: fc.oneof({ weight: 20, arbitrary: fc.constant(key) }, { weight: 1, arbitrary: headerValue }),
      headers: fc.array(header, { maxLength: 2 }),
      encoding: fc.option(fc.constantFrom(...Object.keys(ENCODINGS)), { freq: 10 }),
      body: body ? bodyOf(body) : fc.constant(null),
    }),
  )
  .map(({ method, path, key, headers, encoding, body }) => {
    const encode = encoding === null ? undefined : ENCODINGS[encoding]
    return {
      method,
      path,
      headers: {
        'x-api-key': key,
        ...(body && { 'content-type': 'application/json' }),
        ...Object.fromEntries(headers),
        ...(body && encoding !== null && { 'content-encoding': encoding }),
      },
      body: method === 'GET' || method === 'HEAD' || !body ? null : encode ? encode(body) : body,
    }
  })

/** Raw bytes for the socket, which no client would send. */
export const rawRequest: fc.Arbitrary<Buffer> = fc
  .record({
    method: fc.oneof(fc.constantFrom('GET', 'POST', 'PUT', 'DELETE'), text),
    target: fc.oneof(
      text.map((given) => `/public/users/${given}`),
      text.map((given) => `/public/events?cursor=${given}`),
      fc.constantFrom(
        '/public/users/%',
        '/public/users/%ff',
        '//',
        '/public/../health/live',
        '*',
        'http://[',
        '/\0',
        '',
      ),
      fc.integer({ min: 1, max: 40_000 }).map((length) => `/public/users/${'a'.repeat(length)}`),
    ),
    version: fc.constantFrom('HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', ''),
    headers: fc.array(
      fc.oneof(
        fc.tuple(text, text).map(([key, value]) => `${key}: ${value}`),
        fc.constantFrom(
          'content-length: 5',
          'content-length: -1',
          'content-length: 1e9',
          'content-length: 3\r\ncontent-length: 4',
        ),
        fc.constantFrom(
          'transfer-encoding: chunked',
          'transfer-encoding: chunked, identity',
          'expect: 100-continue',
          'expect: x',
        ),
        fc.constantFrom('upgrade: websocket\r\nconnection: upgrade', 'connection: close', `x-api-key: ${SECRET_KEY}`),
        fc.constantFrom('content-type: application/json', 'content-encoding: gzip', 'host: a\r\nhost: b', ' folded'),
      ),
      { maxLength: 5 },
    ),
    body: fc.oneof(text, jsonText, fc.constantFrom('5\r\n{"a":\r\n0\r\n\r\n', 'ffffffffffffffff\r\n', '-1\r\n')),
  })
  .map(({ method, target, version, headers, body }) =>
    Buffer.from(
      `${method} ${target} ${version}\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n${body}`,
      'utf8',
    ),
  )
