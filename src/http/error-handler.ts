import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  findUnreadablePart,
  isMemoryError,
  isTimeout,
  NoSlotError,
  ShardUnreachableError,
  StoreError,
  StoreUnreachableError,
  type UnreadablePart,
} from '../clickhouse/errors.js'
import { ApiError, type ErrorCode } from '../contract/errors.js'
import { countLimit } from './limit-counts.js'
import { untilDue } from './refusal-pace.js'
import { REQUEST_ID, type RequestLog } from './request-log.js'
import { notePaths, unknownCall } from './unknown-call.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** a part of the store that is damaged, if one is known */
    damagedPart?: () => UnreadablePart | null
  }
}

const RETRY_AFTER_SECONDS = 1

/**
 * Errors of Fastify and its plugins that the caller caused. Every other one with a 4xx status is
 * an `invalid_request`.
 */
const FASTIFY_ERRORS: Record<string, [code: ErrorCode, message: string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'The body must be application/json.'],
  FST_CP_ERR_INVALID_CONTENT_ENCODING: [
    'unsupported_media_type',
    'The Content-Encoding must be one of gzip, deflate, br, zstd or identity, and only one of them.',
  ],
  FST_CP_ERR_INVALID_CONTENT: ['invalid_json', 'The body cannot be decompressed as its Content-Encoding says.'],
  FST_ERR_MAX_PARAM_LENGTH: ['not_found', 'No id can be this long.'],
  FST_ERR_CTP_EMPTY_TYPE: ['unsupported_media_type', 'The body must be application/json.'],
}

/** Errors with which a body may be refused before all of it was read. */
const LEAVES_BODY: ReadonlySet<ErrorCode> = new Set([
  'payload_too_large',
  'overloaded',
  'unsupported_media_type',
  'wrong_key_kind',
  'rate_limited',
])

/**
 * The address of a lane or a shard. Public keys are in every browser, so only a secret key may see it; others get the
 * number.
 */
const PLACES = /\b((?:lane|shard) \d+) \([^()]*\)/gi

/** Errors of Node's HTTP server; each of them closes the connection. */
const NODE_ERRORS: Record<string, [status: number, message: string]> = {
  HPE_HEADER_OVERFLOW: [431, 'The URL and the headers are over 256 KiB. Make them shorter.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time. Send it again.'],
}

const NO_MEMORY =
  'The store does not have enough memory for this right now. Request fewer rows (limit), or try again later.'
const BUSY = 'Other reads of this project are still running. Try again in a moment, or run fewer at a time.'

/** Gives every error the shape of the contract, including unknown paths, bad URLs and requests that are not HTTP. */
export function handleErrors(app: FastifyInstance): void {
  notePaths(app)
  app.setErrorHandler((error: FastifyError, request, reply) =>
    whenDue(error, request, () => sendError(error, request, reply)),
  )
  app.setNotFoundHandler((request, reply) => sendError(unknownCall(request), request, reply))
  // Node would refuse an unknown expectation without a body; it may be ignored instead (RFC 9110,
  // 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  // The authentication sends the 100 Continue, once it is known that the body will be read.
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  // Do not read bodies that are sent to an unknown path.
  app.removeAllContentTypeParsers()
}

/** Sends an error once it is due: see RefusalPace. */
export function whenDue<T>(error: Error, request: FastifyRequest, answer: () => T): T | Promise<T> {
  const due = untilDue(request, error)
  return due ? due.then(answer) : answer()
}

/**
 * Sends an error in the shape of the contract; called directly for errors that never reach the
 * error handler.
 * @param conclude called once the status and all headers are set
 */
export function sendError(
  error: Error,
  request: FastifyRequest,
  reply: FastifyReply,
  conclude: () => void = () => undefined,
): FastifyReply {
  const known = request.is404 ? unknownCall(request) : asApiError(error, request.server.damagedPart)
  noteFailure(request, known, error)
  // The rest of the body is drained, so the connection can stay open. If it closed, a client that
  // is still sending might miss the response.
  if (LEAVES_BODY.has(known.code)) reply.removeHeader('connection')
  reply.code(known.status).headers(retryHeaders(known))
  conclude()
  return reply.send({ ...shape(known), error: messageFor(request, known.message) })
}

/** Notes why a request fails, for the log and the counts of limits. */
export function noteFailure(request: FastifyRequest, known: ApiError, error: Error): void {
  request.failure = { code: known.code, error }
  countLimit(request, known)
}

/** The error message that the sender may read. */
export function messageFor({ keyKind }: FastifyRequest, message: string): string {
  return keyKind === 'secret' ? message : message.replace(PLACES, '$1')
}

/** Sends 431 for a URL and headers over the limit of this route. */
export function refuseLongHead(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const error = new ApiError('invalid_request', 'The URL and the headers are over 16 KiB. Make them shorter.')
  noteFailure(request, error, error)
  return reply.code(431).header('connection', 'close').send(shape(error))
}

/** Responds to requests that the HTTP parser rejects. */
export function refuseMalformedRequest(error: NodeJS.ErrnoException, socket: Socket, log: RequestLog): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, message] = NODE_ERRORS[error.code ?? ''] ?? [400, 'The request is not valid HTTP.']
  const id = log.newId()
  log.refusedBeforeRouting(id, status, error.code)
  const body = JSON.stringify(shape(new ApiError('invalid_request', message)))
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n${REQUEST_ID}: ${id}\r\nconnection: close\r\n\r\n${body}`,
  )
}

function shape({ message, code, details }: ApiError): object {
  return { status: 0, error: message, code, ...(details && { details }) }
}

/** Headers that say when a client may retry, if it may, and which limit it has reached. */
export function retryHeaders({ retryAfter, allowance, status }: ApiError): Record<string, string> {
  const seconds = retryAfter ?? (status === 503 ? RETRY_AFTER_SECONDS : undefined)
  return {
    ...(seconds !== undefined && { 'retry-after': String(seconds) }),
    ...(allowance !== undefined && {
      'ratelimit-limit': String(allowance),
      'ratelimit-remaining': '0',
      'ratelimit-reset': String(seconds),
    }),
  }
}

/** The error for damaged data; retrying does not help. */
function storeDamaged({ part, table }: UnreadablePart, cause: Error): ApiError {
  const [, year, month] = /^(?:patch-[0-9a-f]+-)?(\d{4})(\d{2})_/.exec(part) ?? []
  const isOfEvents = year !== undefined && (table ?? 'events') === 'events'
  const held = isOfEvents ? `, with events of ${year}-${month}` : table ? `, of ${table.replaceAll('_', ' ')}` : ''
  const others = isOfEvents ? ' Ask about other times (from, to).' : ''
  return new ApiError(
    'store_damaged',
    `A part of the store is damaged (${part}${held}), so this cannot be read. Retrying does not help: the operator ` +
      `has to restore it, as "Lost and damaged data" in docs/damage.md says.${others}`,
    { cause },
  )
}

/** @param damagedPart a part of the store that is damaged, if one is known */
export function asApiError(
  error: Error & Partial<FastifyError>,
  damagedPart: () => UnreadablePart | null = () => null,
): ApiError {
  const source = error instanceof ApiError ? error.cause : error
  // If a read times out while a part is damaged, it has probably tried to read that part.
  const damaged = findUnreadablePart(source) ?? (isTimeout(source) ? damagedPart() : null)
  if (damaged) return storeDamaged(damaged, error)
  if (error instanceof ApiError) return error
  if (error instanceof ShardUnreachableError) return new ApiError('unavailable', error.message)
  if (error.cause instanceof NoSlotError) return new ApiError('overloaded', BUSY, { cause: error, limit: 'reads' })
  if (isMemoryError(error)) return new ApiError('overloaded', NO_MEMORY, { cause: error, limit: 'reads' })
  if (error instanceof StoreUnreachableError || error instanceof StoreError) {
    return new ApiError('unavailable', 'The store is unavailable. Try again in a moment.')
  }
  const fastifyError = FASTIFY_ERRORS[error.code ?? '']
  if (fastifyError) return new ApiError(...fastifyError)
  if (error.statusCode !== undefined && error.statusCode < 500) {
    return new ApiError('invalid_request', 'The request cannot be read. Check its URL and headers.')
  }
  return new ApiError('internal', 'Something went wrong, and was logged. Try again.')
}
