import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Access, ALLOWED } from '../keys/keys.js'

// @fastify/cors would copy its options for each request, because they depend on the request here. That took 4 % of the
// CPU time of an event.

/** The rules for pages of other origins. */
interface PageRules {
  /** the origin to allow in the response; null: the page may not read it */
  allowed(origin: string | undefined): string | null
  /** headers of each response to a page */
  headers: Record<string, string>
  /** headers of the response to a preflight request */
  preflight: Record<string, string>
  /** whether a request is one that pages may make */
  isOpen(request: FastifyRequest): boolean
}

/** How long a browser may cache a preflight response, in s; none caches it for longer than two hours. */
const PREFLIGHT_AGE = '7200'

/** Response headers that a page's script may read. */
const EXPOSED = 'x-event-id, x-request-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset'

/**
 * Lets pages of these origins POST to the routes of a scope that a write key may call; `*` is any
 * origin. Call it before the routes are registered. Only responses to pages get additional headers,
 * except for session calls, which are made by pages.
 */
export function allowOrigins(scope: FastifyInstance, origins: string[]): void {
  const isAny = origins.includes('*')
  const open = new Map<string, Access>()
  let hasSessionCalls = false
  scope.addHook('onRoute', ({ url, config }) => {
    if (config?.access && ALLOWED[config.access].includes('write')) open.set(url, config.access)
    hasSessionCalls ||= config?.access === 'session'
  })
  answerPages(scope, {
    allowed: (origin) => (isAny ? '*' : origin !== undefined && origins.includes(origin) ? origin : null),
    headers: { 'access-control-expose-headers': EXPOSED },
    preflight: { 'access-control-allow-methods': 'POST', 'access-control-max-age': PREFLIGHT_AGE },
    isOpen: ({ method, headers, url }) => {
      const isFromPage = headers.origin !== undefined || method === 'OPTIONS'
      if (!isFromPage && !hasSessionCalls) return false
      const access = open.get(url.split('?', 1)[0] ?? '')
      return access !== undefined && (isFromPage || access === 'session')
    },
  })
}

/**
 * Lets pages of any origin call the routes of a scope with any headers. Some SDKs send credentials,
 * which requires naming the origin; there are no cookies, so they give no access.
 */
export function allowAnyPage(scope: FastifyInstance): void {
  answerPages(scope, {
    allowed: (origin) => origin ?? null,
    headers: { 'access-control-allow-credentials': 'true', 'access-control-expose-headers': 'retry-after' },
    preflight: { 'access-control-allow-methods': 'GET, POST', 'access-control-max-age': PREFLIGHT_AGE },
    isOpen: () => true,
  })
}

function answerPages(scope: FastifyInstance, { allowed, headers, preflight, isOpen }: PageRules): void {
  scope.addHook('onRequest', (request, reply, done) => {
    if (!isOpen(request)) return done()
    // A cache must not give one page the answer of another.
    reply.headers(headers).header('vary', 'origin')
    const origin = allowed(request.headers.origin)
    if (origin !== null) reply.header('access-control-allow-origin', origin)
    if (request.method !== 'OPTIONS') return done()
    answerPreflight(request, reply.headers(preflight))
  })
  // Without a route, no hook runs.
  scope.options('*', { schema: { hide: true } }, (_request, reply) => reply.callNotFound())
}

function answerPreflight(request: FastifyRequest, reply: FastifyReply): void {
  const wanted = request.headers['access-control-request-headers']
  reply.header('vary', 'origin, access-control-request-headers')
  if (wanted !== undefined) reply.header('access-control-allow-headers', wanted)
  reply.code(204).header('content-length', '0').send()
}
