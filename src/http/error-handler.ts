import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { StoreError, StoreUnreachableError } from '../clickhouse/errors.js'
import { ApiError, type ErrorCode } from '../contract/errors.js'
import { REQUEST_ID, type RequestLog } from './request-log.js'

const RETRY_AFTER_SECONDS = 1

/** Errors of Fastify and its plugins that a caller is at fault for; every other one is a request that cannot be read. */
const OF_FASTIFY: Record<string, [code: ErrorCode, message: string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media_type', 'The body must be application/json.'],
  FST_CP_ERR_INVALID_CONTENT_ENCODING: [
    'unsupported_media_type',
    'The Content-Encoding must be one of gzip, deflate, br, identity or, where Node has it, zstd, and no list of several.',
  ],
  FST_CP_ERR_INVALID_CONTENT: ['invalid_json', 'The body cannot be decompressed by its Content-Encoding.'],
  FST_ERR_MAX_PARAM_LENGTH: ['not_found', 'There is nothing with an id of this length.'],
  FST_ERR_CTP_EMPTY_TYPE: ['unsupported_media_type', 'The body must be application/json.'],
}

/** Errors of Node's HTTP server; after each of them the connection ends. */
const OF_NODE: Record<string, [status: number, message: string]> = {
  HPE_HEADER_OVERFLOW: [431, 'The URL and the headers are over 16 KiB. Send less in them.'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'The request did not arrive in time. Send it again.'],
}

/** Gives every answer the shape of the contract: errors, unknown paths, bad URLs and requests that are no HTTP. */
export function answerInOneShape(app: FastifyInstance): void {
  app.setErrorHandler((error: FastifyError, request, reply) => sendError(error, request, reply))
  app.setNotFoundHandler((request, reply) => sendError(unknownCall(), request, reply))
  // Node would answer an unknown expectation itself, without a body; it may be passed over as well (RFC 9110, 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  // Its body is asked for when it is known that it will be read.
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  // Nothing reads a body that is sent to an unknown path.
  app.removeAllContentTypeParsers()
}

/**
 * Also for errors that never reach the error handler.
 * @param conclude called when all but the body is set
 */
export function sendError(
  error: Error,
  request: FastifyRequest,
  reply: FastifyReply,
  conclude: () => void = () => undefined,
): FastifyReply {
  const known = request.is404 ? unknownCall() : asContractError(error)
  request.failure = { code: known.code, error }
  // What is left of the body is read, so the connection need not end; a client that is still sending might miss the answer.
  if (known.code === 'payload_too_large' || known.code === 'overloaded') reply.removeHeader('connection')
  const retryAfter = known.retryAfter ?? (known.status === 503 ? RETRY_AFTER_SECONDS : null)
  if (retryAfter !== null) reply.header('retry-after', String(retryAfter))
  reply.code(known.status)
  conclude()
  return reply.send(shape(known))
}

/** For what the HTTP parser refuses, before there is a request. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket, log: RequestLog): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, message] = OF_NODE[error.code ?? ''] ?? [400, 'The request is not valid HTTP.']
  const id = log.newId()
  log.refusedBeforeRouting(id, status, error.code)
  const body = JSON.stringify(shape(new ApiError('invalid_request', message)))
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n${REQUEST_ID}: ${id}\r\nconnection: close\r\n\r\n${body}`,
  )
}

function unknownCall(): ApiError {
  return new ApiError('not_found', 'There is no such call.')
}

function shape({ message, code, details }: ApiError): object {
  return { status: 0, error: message, code, ...(details && { details }) }
}

function asContractError(error: Error & Partial<FastifyError>): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof StoreUnreachableError || error instanceof StoreError) {
    return new ApiError('unavailable', 'The store cannot answer at the moment. Try again in a moment.')
  }
  const ofFastify = OF_FASTIFY[error.code ?? '']
  if (ofFastify) return new ApiError(...ofFastify)
  if (error.statusCode !== undefined && error.statusCode < 500) {
    return new ApiError('invalid_request', 'The request cannot be read. Check its URL and headers.')
  }
  return new ApiError('internal', 'Something went wrong here. It was logged; try again.')
}
