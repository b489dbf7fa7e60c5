import type { FastifyInstance } from 'fastify'
import { Histogram, SECONDS } from '../lib/histogram.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** when it came, as `performance.now()` has it; 0 where the router could not read it */
    startedAt: number
  }
}

/** An HTTP status is below this. */
const STATUSES = 600

/** What became of the requests of one route. */
export class RouteMetrics {
  readonly method: string
  /** the pattern, never the path that was asked for: a path may hold a user's id, and there is no end of them */
  readonly route: string
  /** how many were answered, by their status */
  readonly answers = new Float64Array(STATUSES)
  /** from the end of a request's head to the beginning of its answer */
  readonly seconds = new Histogram(SECONDS)

  constructor(method: string, route: string) {
    this.method = method
    this.route = route
  }

  count(status: number, startedAt: number): void {
    this.answers[status] = (this.answers[status] ?? 0) + 1
    if (startedAt > 0) this.seconds.observe((performance.now() - startedAt) / 1000)
  }
}

export interface RequestMetrics {
  routes: readonly RouteMetrics[]
  /** of the requests that no route is for; whoever answers one without a hook counts it here */
  unmatched: RouteMetrics
}

/**
 * Counts every request of the routes that are registered from here on. A route's hook knows its figures from the
 * registration, so that a request costs two readings of the clock and makes nothing.
 * @returns the figures, which go on counting
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
    const figures = new RouteMetrics(String(route.method), route.url)
    routes.push(figures)
    const others = route.onSend === undefined ? [] : [route.onSend].flat()
    route.onSend = [
      ...others,
      (request, reply, _payload, done) => {
        figures.count(reply.statusCode, request.startedAt)
        done()
      },
    ]
  })
  return { routes, unmatched }
}
