import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import files from '@fastify/static'
import type { FastifyPluginAsync } from 'fastify'
import { protectPages } from '../http/page-headers.js'
import { VERSION } from '../version.js'

export interface PageOptions {
  /** whether there is an API that the page can ask */
  isServed: boolean
  /** paths that this role serves, by name */
  links: Record<string, string>
}

/** What the build has made of src/web: the same place for src/ and dist/. */
const BUILT = fileURLToPath(new URL('../../dist/web/', import.meta.url))
const YEAR_MS = 31_536_000_000

/** The page that people look at, and for programs the names of the service and its entry points. */
export const page: FastifyPluginAsync<PageOptions> = async (app, { isServed, links }) => {
  const hasPage = isServed && existsSync(`${BUILT}index.html`)
  await protectPages(app)
  await app.register(files, { root: BUILT, serve: false, preCompressed: true })

  app.get('/', async (request, reply) => {
    reply.header('vary', 'accept, accept-encoding')
    const wantsPage = /\btext\/html\b/.test(request.headers.accept ?? '')
    // Its parts have the hash of their content in their names; it itself has not.
    if (hasPage && wantsPage) {
      reply.header('cache-control', 'no-cache')
      return reply.sendFile('index.html', { cacheControl: false })
    }
    return { status: 1, error: null, name: 'tallyhouse', version: VERSION, ...links }
  })

  app.get<{ Params: { name: string } }>('/assets/:name', async ({ params }, reply) => {
    reply.header('vary', 'accept-encoding')
    return reply.sendFile(`assets/${params.name}`, { maxAge: YEAR_MS, immutable: true })
  })
}
