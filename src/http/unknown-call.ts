import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../contract/errors.js'

declare module 'fastify' {
  interface FastifyInstance {
    routedPaths: RoutedPath[]
  }
}

/** A path of the router, such as `/public/users/:userId`. */
interface RoutedPath {
  segments: string[]
  methods: string[]
}

/** Notes which methods each path takes, because Fastify does not expose that. Call it before the first route. */
export function notePaths(app: FastifyInstance): void {
  app.decorate('routedPaths', [])
  app.addHook('onRoute', ({ url, method }) => {
    app.routedPaths.push({ segments: url.split('/'), methods: [method].flat() })
  })
}

/** The router rejects such a path even if a route matches it. */
const UNREADABLE = 'There is no call at this path: it is too long, or its percent-encoding is not UTF-8.'

/** The error for a request that no route takes. It does not quote the path, which may contain a key. */
export function unknownCall({ url, method, server }: FastifyRequest): ApiError {
  const given = (url.split('?', 1)[0] ?? '').split('/')
  const found = server.routedPaths.filter(({ segments }) => isMatch(segments, given))
  const methods = new Set(
    found.flatMap(({ methods }) => methods).filter((name) => name !== 'HEAD' && name !== 'OPTIONS'),
  )
  if (methods.size === 0) return new ApiError('not_found', 'There is no call at this path.')
  if (methods.has(method)) return new ApiError('not_found', UNREADABLE)
  const list = [...methods]
    .sort()
    .join(', ')
    .replace(/, (?=\w+$)/, ' and ')
  return new ApiError('not_found', `This path takes ${list}, but not ${method}.`)
}

function isMatch(segments: readonly string[], given: readonly string[]): boolean {
  const last = segments.indexOf('*')
  if (last < 0 ? segments.length !== given.length : given.length <= last) return false
  return segments.slice(0, last < 0 ? undefined : last).every((segment, i) => {
    return segment.startsWith(':') ? given[i] !== '' : segment === given[i]
  })
}
