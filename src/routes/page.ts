import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import files from '@fastify/static'
import type { FastifyPluginAsync } from 'fastify'
import { protectPages } from '../http/page-headers.js'
import { VERSION } from '../version.js'

export interface PageOptions {
  /** whether this process serves the API that the page uses */
  isServed: boolean
  /** paths that this role serves, by name */
  links: Record<string, string>
}

/** The folder of the built page; the relative path is the same from src/ and dist/. */
const BUILT = fileURLToPath(new URL('../../dist/web/', import.meta.url))
const YEAR_MS = 31_536_000_000

/** Serves the page to browsers, and the names of the service and its entry points to programs. */
export const page: FastifyPluginAsync<PageOptions> = async (app, { isServed, links }) => {
  const hasPage = isServed && existsSync(`${BUILT}index.html`)
  await protectPages(app)
  await app.register(files, { root: BUILT, serve: false, preCompressed: true })

  app.get('/', async (request, reply) => {
    reply.header('vary', 'accept, accept-encoding')
    const wantsPage = /\btext\/html\b/.test(request.headers.accept ?? '')
    // Browsers must not cache this file: unlike its parts, it has no hash of its content in its name.
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
