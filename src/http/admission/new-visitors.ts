import type { FastifyInstance, FastifyRequest } from 'fastify'
import { readUserNames } from '../../model/identified-events.js'
import { ScannedBody } from '../../model/scanned-body.js'
import { listNamed } from './daily-visitors.js'

/** Counts the visitors that are new to this process, in a scope. Calls that change users count those that they create. */
export function countNewVisitors(scope: FastifyInstance): void {
  scope.addHook('preHandler', (request, _reply, done) => {
    const { access, changesUsers } = request.routeOptions.config
    const isOfVisitors = !changesUsers && (access === 'send' || access === 'session')
    if (request.toll && isOfVisitors) request.toll.countVisitors(request.projectId, readNames(request))
    done()
  })
}

function readNames(request: FastifyRequest): string[] {
  const { body, rawBody } = request
  if (body instanceof ScannedBody) return readUserNames(rawBody, body)
  return listNamed(request, body).flatMap((one) => (typeof one?.distinct_id === 'string' ? [one.distinct_id] : []))
}
