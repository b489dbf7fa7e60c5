import { createHash, hash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { ApiError } from '../../contract/errors.js'
import type { IdempotencyKey } from '../../model/request-ids.js'
import { senderName } from '../../model/sender.js'
import { getSender } from './authenticate.js'

const MAX_LENGTH = 255

/**
 * The request's `Idempotency-Key`, hashed together with its sender, and a fingerprint of the
 * route and the body. Call it before the body's bytes are changed.
 * @returns null if the request has none
 * @throws ApiError `invalid_request` if the key is empty or too long
 */
export function parseIdempotencyKey(request: FastifyRequest): IdempotencyKey | null {
  const key = request.headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key !== 'string' || key.length === 0 || key.length > MAX_LENGTH) {
    throw new ApiError('invalid_request', `The header Idempotency-Key must be 1 to ${MAX_LENGTH} characters long.`)
  }
  // Fastify creates the object of the options on each access, so avoid that for requests without a key.
  const { routeOptions, rawBody } = request
  const sender = getSender(request)
  return {
    key: hash('sha256', JSON.stringify([senderName(sender), key]), 'hex'),
    // Only the route's pattern: the query of these calls does not change which events they are about.
    fingerprint: createHash('sha256').update(`${routeOptions.url}\n`).update(rawBody).digest('hex'),
  }
}
