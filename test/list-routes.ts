import type { FastifyInstance } from 'fastify'

/** `METHOD path` of every route, from the router's own tree. */
export function listRoutes(app: FastifyInstance): string[] {
  const place: string[] = []
  return app
    .printRoutes({ commonPrefix: false })
    .split('\n')
    .flatMap((line) => {
      const [, indent = '', part = '', methods] = /^((?:[│ ] {3})*)[├└]── (.*?)(?: \(([A-Z, ]+)\))?$/.exec(line) ?? []
      place.length = indent.length / 4
      place.push(part)
      return methods?.split(', ').map((method) => `${method} ${place.join('')}`) ?? []
    })
}
