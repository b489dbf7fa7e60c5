import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError, invalidField } from '../../contract/errors.js'
import { DAILY_VISITOR_REASON, isDailyVisitor, type Visit } from '../../contract/user-names.js'
import { isBrowserKey } from '../../keys/keys.js'
import { ScannedBody } from '../../model/scanned-body.js'
import { clientAddress } from './browser-limits.js'

/** Names a visitor. @throws ApiError `unavailable` */
export type NameVisitor = (visit: Visit) => string

/** A body after validation: an event, a batch, or a call of a session. */
interface Named {
  distinct_id?: unknown
  events?: unknown
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
  const named = listNamed(body)
  // The events of a body that was scanned all have names.
  const first =
    body instanceof ScannedBody
      ? Number(body.isBatch)
      : named.findIndex(({ distinct_id = null }) => distinct_id !== null)
  if (first !== -1) {
    const path = first === 0 ? '' : `/events/${first - 1}`
    throw invalidField(`${path}/distinct_id`, 'must be absent with visitor=daily: the service generates it')
  }
  const { projectId, headers } = request
  const name = nameVisitor({ projectId, address: clientAddress(request), userAgent: headers['user-agent'] ?? '' })
  const isBatch = named.length > 0 && Array.isArray((body as Named).events)
  for (const one of isBatch ? named.slice(1) : named) one.distinct_id = name
}

function refuseVisitors({ body, rawBody }: FastifyRequest): void {
  if (body instanceof ScannedBody && !body.mayNameVisitor) return
  const [parsed, ...events] = listNamed(body instanceof ScannedBody ? JSON.parse(rawBody.toString()) : body)
  const isForged = (one: Named | undefined) => typeof one?.distinct_id === 'string' && isDailyVisitor(one.distinct_id)
  const index = events.findIndex(isForged)
  if (index === -1 && !isForged(parsed)) return
  throw invalidField(index === -1 ? '/distinct_id' : `/events/${index}/distinct_id`, DAILY_VISITOR_REASON)
}

/**
 * The objects in a parsed body that may have a `distinct_id`: first the body, then its events. A single event may have
 * a field `events` as well, which must not hide its own name.
 */
export function listNamed(body: unknown): Named[] {
  if (!isObject(body)) return []
  return [body, ...(Array.isArray(body.events) ? body.events.filter(isObject) : [])]
}

function isObject(value: unknown): value is Named {
  return typeof value === 'object' && value !== null
}
