import type { FastifyInstance } from 'fastify'
import { Histogram, SECONDS } from '../lib/histogram.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** when the request arrived, by `performance.now()`; 0 if the router could not read its URL */
    startedAt: number
  }
}

/** Every HTTP status is below this. */
const STATUSES = 600

class RouteMetrics {
  readonly method: string
  /**
   * the pattern and never the requested path: a path may contain a user's id, and paths are
   * unbounded
   */
  readonly route: string
  /** responses by status */
  readonly responses = new Float64Array(STATUSES)
  /** from the end of a request's headers to the beginning of its response */
  readonly seconds = new Histogram(SECONDS)

  constructor(method: string, route: string) {
    this.method = method
    this.route = route
  }

  count(status: number, startedAt: number): void {
    this.responses[status] = (this.responses[status] ?? 0) + 1
    if (startedAt > 0) this.seconds.observe((performance.now() - startedAt) / 1000)
  }
}

export interface RequestMetrics {
  routes: readonly RouteMetrics[]
  /**
   * requests that match no route; a response that passes no hook must be counted here explicitly
   */
  unmatched: RouteMetrics
}

/**
 * Counts the requests of all routes that are registered after this call. A route's hook holds its
 * metrics from its registration on, so that a request costs two clock readings and no allocation.
 * @returns live metrics
 */
export function countRequests(server: FastifyInstance): RequestMetrics {
  const unmatched = new RouteMetrics('any', 'none')
  const routes: RouteMetrics[] = []
  server.decorateRequest('startedAt', 0)
  server.addHook('onRequest', (request, _reply, done) => {
    request.startedAt = performance.now()
    done()
  })
  server.addHook('onSend', (request, reply, _payload, done) => {
    if (request.is404) unmatched.count(reply.statusCode, request.startedAt)
    done()
  })
  server.addHook('onRoute', (route) => {
    const metrics = new RouteMetrics(String(route.method), route.url)
    routes.push(metrics)
    const others = route.onSend === undefined ? [] : [route.onSend].flat()
    route.onSend = [
      ...others,
      (request, reply, _payload, done) => {
        metrics.count(reply.statusCode, request.startedAt)
        done()
      },
    ]
  })
  return { routes, unmatched }
}
