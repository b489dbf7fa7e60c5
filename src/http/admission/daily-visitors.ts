import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, invalidField } from '../../contract/errors.js'
import { DAILY_VISITOR_REASON, isDailyVisitor, type Visit } from '../../contract/user-names.js'
import { isBrowserKey } from '../../keys/keys.js'
import { ScannedBody } from '../../model/scanned-body.js'
import { clientAddress } from './browser-limits.js'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** whether the body is a batch: a single event may have a field `events`, which is ignored */
    isBatch?: boolean
  }
}

/** Names a visitor. @throws ApiError `unavailable` */
export type NameVisitor = (visit: Visit) => string

/** An event, or a call of a session. */
interface Named {
  distinct_id?: unknown
}

/**
 * Names the visitor of each request with `visitor=daily` in a scope, before its body is validated. Other requests with
 * a browser key may not use such names, or a page could speak for another visitor.
 */
export function acceptDailyVisitors(scope: FastifyInstance, nameVisitor: NameVisitor): void {
  scope.addHook('preValidation', async (request) => {
    const { access, changesUsers } = request.routeOptions.config
    if (access !== 'send' && access !== 'session') return
    const { visitor } = request.query as { visitor?: unknown }
    if (visitor !== undefined && changesUsers) {
      throw invalidField('/visitor', 'is for events and sessions: daily visitors have no profiles')
    }
    if (visitor !== undefined) setVisitor(request, visitor, nameVisitor)
    // Calls about users refuse these names with any key.
    else if (!changesUsers && request.keyKind !== null && isBrowserKey(request.keyKind)) refuseVisitors(request)
  })
}

function setVisitor(request: FastifyRequest, visitor: unknown, nameVisitor: NameVisitor): void {
  if (visitor !== 'daily') throw invalidField('/visitor', 'must be daily, or absent')
  if (request.keyKind === null || !isBrowserKey(request.keyKind)) {
    throw new ApiError(
      'wrong_key_kind',
      'visitor=daily needs a write or public key: with another key, send a distinct_id.',
    )
  }
  const { body } = request
  const named = listNamed(request, body)
  // The events of a body that was scanned all have names.
  const first = body instanceof ScannedBody ? 0 : named.findIndex((one) => (one?.distinct_id ?? null) !== null)
  if (first !== -1) refuseName(request, first, 'must be absent with visitor=daily: the service generates it')
  const { projectId, headers } = request
  const name = nameVisitor({ projectId, address: clientAddress(request), userAgent: headers['user-agent'] ?? '' })
  for (const one of named) if (one) one.distinct_id = name
}

function refuseVisitors(request: FastifyRequest): void {
  const { body, rawBody } = request
  if (body instanceof ScannedBody && !body.mayNameVisitor) return
  const named = listNamed(request, body instanceof ScannedBody ? JSON.parse(rawBody.toString()) : body)
  const forged = named.findIndex((one) => typeof one?.distinct_id === 'string' && isDailyVisitor(one.distinct_id))
  if (forged !== -1) refuseName(request, forged, DAILY_VISITOR_REASON)
}

function refuseName({ routeOptions }: FastifyRequest, index: number, reason: string): never {
  throw invalidField(routeOptions.config.isBatch ? `/events/${index}/distinct_id` : '/distinct_id', reason)
}

/**
 * The objects in a parsed body that need a `distinct_id`: the events of a batch, by index, or else the body itself;
 * null for what is not an object.
 */
export function listNamed({ routeOptions }: FastifyRequest, body: unknown): (Named | null)[] {
  if (!routeOptions.config.isBatch) return [isObject(body) ? body : null]
  const { events } = isObject(body) ? (body as { events?: unknown }) : {}
  return Array.isArray(events) ? events.map((event) => (isObject(event) ? event : null)) : []
}

function isObject(value: unknown): value is Named {
  return typeof value === 'object' && value !== null
}
